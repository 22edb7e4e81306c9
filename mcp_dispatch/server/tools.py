"""`tools/call`: parses the request to a call and converts its outcome to a result."""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, assert_never, cast

import anyio
from mcp_types import INVALID_PARAMS

from mcp_dispatch.approval.elicitation import INPUT_KEY
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
from mcp_dispatch.model.tools import ToolsActivated, build_error_result
from mcp_dispatch.pipeline.pending import identify_call
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.server.backend import Backend
from mcp_dispatch.server.client import WireCaller, run_until_disconnect
from mcp_dispatch.server.compat import RESOURCE_LINKS_SINCE, convert_result
from mcp_dispatch.server.list_changed import get_tracker, notify_tools_changed
from mcp_dispatch.server.proxy import build_input_required, read_input_responses
from mcp_dispatch.server.sessions import ClientSessions
from mcp_dispatch.tools.tool_search import replace_call_hints
from mcp_dispatch.wire import sdk
from mcp_dispatch.wire.sdk import MCPError

ROOTS_TIMEOUT_SECONDS = 5.0
TOOL_USE_ID_KEY = "claudecode/toolUseId"


class ToolCallHandler:
    """Parses a call, runs it until it ends or its client disconnects, and returns the result."""

    def __init__(
        self, backend: Backend, sessions: ClientSessions, roots_known: anyio.Event
    ) -> None:
        self._backend = backend
        self._sessions = sessions
        self._ask_timeout = backend.ask_timeout
        self._roots_known = roots_known

    async def handle(self, ctx: sdk.Context) -> JsonObject:
        with anyio.move_on_after(ROOTS_TIMEOUT_SECONDS):
            if not sdk.is_modern(ctx):
                await self._roots_known.wait()
        scope = self._sessions.find_scope(ctx)
        call = self._parse_call(ctx.params or {}, scope)
        activated = scope.activated_tools
        await self._backend.wait_for_tool(call.name)
        caller = WireCaller(ctx, self._sessions.output, self._ask_timeout)
        execute = partial(self._backend.dispatcher.dispatch, call, scope, caller)
        outcome = await run_until_disconnect(sdk.get_request_ended(ctx), execute)
        result = await _build_result_after_relist(ctx, outcome, activated)
        structured = result.get("structuredContent")
        if ctx.protocol_version < RESOURCE_LINKS_SINCE or not isinstance(structured, dict | None):
            return convert_result(ctx.protocol_version, result)
        return result

    def _parse_call(self, params: Mapping[str, Any], scope: Scope) -> ToolCall:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise MCPError(INVALID_PARAMS, "tools/call: name must be a string")
        if arguments is not None and not isinstance(arguments, dict):
            raise MCPError(INVALID_PARAMS, "tools/call: arguments must be an object")
        meta: Json = params.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        call_id = secrets.token_hex(8)
        tool_use_id = meta.get(TOOL_USE_ID_KEY)
        call = ToolCall(
            id=call_id,
            tool_use_id=tool_use_id if isinstance(tool_use_id, str) else call_id,
            name=name,
            arguments=cast(JsonObject, arguments or {}),
            meta=meta,
        )
        # A pending question is keyed by the call inside the `call_tool` envelope.
        call = self._backend.dispatcher.unwrap_call_tool(call)
        return replace(
            call,
            approval_answer=_pop_answer(params, scope, call),
            call_retry=_pop_retry(params, scope, call),
        )


async def _build_result_after_relist(
    ctx: sdk.Context, outcome: Outcome, activated_before: Collection[str]
) -> JsonObject:
    """Return the result; if it activates tools, wait until the client has fetched its list again.

    A client that has the tools in its list is told to call them by name.
    """
    result, activated = _to_wire(outcome), _find_activated(outcome)
    if not activated or sdk.is_modern(ctx):
        return result
    tracker = get_tracker(ctx)
    if activated.issubset(activated_before):
        is_listed = tracker.is_current
    else:
        notify = partial(notify_tools_changed, sdk.get_connection_outbound(ctx))
        is_listed = await tracker.notify_and_wait(notify)
    return replace_call_hints(result) if is_listed else result


def _find_activated(outcome: Outcome) -> frozenset[str]:
    changes = outcome.executed.result.changes if isinstance(outcome, Completed) else ()
    activated = (change.tools for change in changes if isinstance(change, ToolsActivated))
    return frozenset(name for names in activated for name in names)


def _pop_answer(params: Mapping[str, Any], scope: Scope, call: ToolCall) -> ApprovalAnswer | None:
    """Return the answer to an approval question; each request state is valid once, for one call."""
    state = params.get("requestState")
    if not isinstance(state, str):
        return None
    context = scope.pending_questions.pop(state, identify_call(call))
    answer = read_input_responses(params).get(INPUT_KEY)
    if context is None or not isinstance(answer, dict):
        return None
    return ApprovalAnswer(context, answer)


def _pop_retry(params: Mapping[str, Any], scope: Scope, call: ToolCall) -> CallRetry | None:
    """Return the answers to questions of an upstream, with the pending call that they continue."""
    state = params.get("requestState")
    if not isinstance(state, str):
        return None
    pending = scope.pending_requests.pop(state, identify_call(call))
    if pending is None:
        return None
    return CallRetry(pending.review, Retry(pending.continuation, read_input_responses(params)))


def _to_wire(outcome: Outcome) -> JsonObject:
    match outcome:
        case Completed():
            return outcome.wire
        case Refusal():
            return build_error_result(format_error(outcome.message)).wire
        case Cancelled():
            return build_error_result(format_cancellation(outcome)).wire
        case Suspended():
            return build_input_required(outcome.input_requests, outcome.state)
        case ProtocolError():
            raise MCPError(outcome.code, outcome.message, outcome.data)
        case _:
            assert_never(outcome)
