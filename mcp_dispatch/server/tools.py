"""`tools/call`: from the wire to a call, and from its outcome back to the wire."""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, assert_never, cast

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from mcp_dispatch.approval.elicitation import INPUT_KEY, ClientRequest, LiveCaller, RetryingCaller
from mcp_dispatch.model.approval import Caller
from mcp_dispatch.model.calls import ApprovalAnswer, CallRetry, Completed, Outcome, ToolCall
from mcp_dispatch.model.client import Retry
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import (
    Cancelled,
    ProtocolError,
    Refusal,
    Suspended,
    format_cancellation,
    format_error,
)
from mcp_dispatch.model.tools import ToolsActivated
from mcp_dispatch.pipeline.executor import Executor
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.server.backend import Backend
from mcp_dispatch.server.client import WireClient, run_until_disconnect
from mcp_dispatch.server.compat import convert_result
from mcp_dispatch.server.list_changed import get_tracker, notify_tools_changed
from mcp_dispatch.server.proxy import build_input_required, read_input_responses
from mcp_dispatch.tools.tool_search import replace_call_hints
from mcp_dispatch.wire import sdk

ROOTS_TIMEOUT_SECONDS = 5.0
TOOL_USE_ID_KEY = "claudecode/toolUseId"


class ToolCallHandler:
    """`tools/call`: read, dispatched for as long as somebody waits, answered."""

    def __init__(self, backend: Backend, roots_known: anyio.Event) -> None:
        self._backend = backend
        self._executor = Executor(backend.dispatcher)
        self._roots_known = roots_known

    async def handle(self, ctx: sdk.Context) -> JsonObject:
        params = ctx.params or {}
        with anyio.move_on_after(ROOTS_TIMEOUT_SECONDS):
            if not sdk.is_modern(ctx):
                await self._roots_known.wait()
        scope = self._backend.find_scope(ctx)
        call = self._parse_call(params, scope)
        activated = scope.activated_tools
        await self._backend.wait_for_tool(call.name)
        execute = partial(self._executor.call, call, scope, self._create_caller(ctx, call))
        outcome = await run_until_disconnect(sdk.get_request_ended(ctx), execute)
        wire = await _build_result_after_relist(ctx, outcome, activated)
        return convert_result(ctx.protocol_version, wire)

    def _parse_call(self, params: Mapping[str, Any], scope: Scope) -> ToolCall:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise MCPError(INVALID_PARAMS, "tools/call: name must be a string")
        if arguments is not None and not isinstance(arguments, dict):
            raise MCPError(INVALID_PARAMS, "tools/call: arguments must be an object")
        given = cast(JsonObject, arguments or {})
        meta: Json = params.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        call_id = secrets.token_hex(8)
        tool_use_id = meta.get(TOOL_USE_ID_KEY)
        call = ToolCall(
            id=call_id,
            tool_use_id=tool_use_id if isinstance(tool_use_id, str) else call_id,
            name=name,
            arguments=given,
            meta=meta,
        )
        # A question was put about what is inside an envelope.
        call = self._backend.dispatcher.unwrap_call_tool(call)
        return replace(
            call,
            approval_answer=_pop_answer(params, scope, call),
            call_retry=_pop_retry(params, scope, call),
        )

    def _create_caller(self, ctx: sdk.Context, call: ToolCall) -> Caller:
        token = call.meta.get("progressToken")
        usable = isinstance(token, str | int) and not isinstance(token, bool)
        request = ClientRequest(
            channel=sdk.get_request_outbound(ctx),
            capabilities=sdk.get_client_capabilities(ctx),
            progress_token=cast("str | int", token) if usable else None,
            wait_for_capacity=self._backend.wait_for_capacity,
            client=WireClient(ctx),
        )
        if sdk.is_modern(ctx):
            return RetryingCaller(request)
        knows_modes = ctx.protocol_version >= "2025-11-25"
        return LiveCaller(request, knows_modes, self._backend.ask_timeout)


async def _build_result_after_relist(
    ctx: sdk.Context, outcome: Outcome, activated_before: Collection[str]
) -> JsonObject:
    """The answer; where it brings tools to the client's list, once the client has them there."""
    wire, found = _to_wire(outcome), _find_activated(outcome)
    if not found or sdk.is_modern(ctx):
        return wire
    relisting = get_tracker(ctx)
    if found.issubset(activated_before):
        has_them = relisting.is_current
    else:
        has_them = await relisting.notify_and_wait(
            partial(notify_tools_changed, sdk.get_connection_outbound(ctx))
        )
    return replace_call_hints(wire) if has_them else wire


def _find_activated(outcome: Outcome) -> frozenset[str]:
    changes = outcome.executed.result.changes if isinstance(outcome, Completed) else ()
    found = (change.tools for change in changes if isinstance(change, ToolsActivated))
    return frozenset(name for names in found for name in names)


def _pop_answer(params: Mapping[str, Any], scope: Scope, call: ToolCall) -> ApprovalAnswer | None:
    """An answer counts only with the state we gave out for this call, and once."""
    state = params.get("requestState")
    if not isinstance(state, str):
        return None
    asked = scope.pending_questions.pop(state, call.name, call.arguments)
    answer = read_input_responses(params).get(INPUT_KEY)
    if asked is None or not isinstance(answer, dict):
        return None
    return ApprovalAnswer(asked, answer)


def _pop_retry(params: Mapping[str, Any], scope: Scope, call: ToolCall) -> CallRetry | None:
    """The answers to a server's own questions, for the call that waits for them."""
    state = params.get("requestState")
    request: JsonObject = {"name": call.name, "arguments": call.arguments}
    waiting = scope.pending_requests.pop(state, request) if isinstance(state, str) else None
    if waiting is None:
        return None
    return CallRetry(waiting.review, Retry(waiting.continuation, read_input_responses(params)))


def _to_wire(outcome: Outcome) -> JsonObject:
    match outcome:
        case Completed():
            return outcome.wire
        case Refusal():
            return _build_error(format_error(outcome.message))
        case Cancelled():
            return _build_error(format_cancellation(outcome))
        case Suspended():
            return build_input_required(outcome.input_requests, outcome.state)
        case ProtocolError():
            raise MCPError(outcome.code, outcome.message, outcome.data)
        case _:
            assert_never(outcome)


def _build_error(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], "isError": True}
