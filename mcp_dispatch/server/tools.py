"""`tools/call`: from the wire to a call, and from its outcome back to the wire."""

import secrets
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, assert_never, cast

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from mcp_dispatch.approval.elicitation import INPUT_KEY, LiveCaller, Request, RetryingCaller
from mcp_dispatch.model.approval import Caller
from mcp_dispatch.model.calls import Answered, Completed, Outcome, ResumedCall, ToolCall
from mcp_dispatch.model.client import Resumed
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import (
    Cancelled,
    ProtocolError,
    Refusal,
    Suspended,
    cancelled_text,
    error_text,
)
from mcp_dispatch.model.tools import ToolsActivated
from mcp_dispatch.pipeline.executor import Executor
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.server.backend import Backstage
from mcp_dispatch.server.client import WireClient, while_awaited
from mcp_dispatch.server.compat import result_for
from mcp_dispatch.server.list_changed import relisting_of, tell_tools_changed
from mcp_dispatch.server.proxy import input_required, responses_of
from mcp_dispatch.tools.tool_search import call_by_name
from mcp_dispatch.wire import sdk

ROOTS_SECONDS = 5.0
TOOL_USE_ID = "claudecode/toolUseId"


class Calls:
    """`tools/call`: read, dispatched for as long as somebody waits, answered."""

    def __init__(self, backstage: Backstage, placed: anyio.Event) -> None:
        self._backstage = backstage
        self._executor = Executor(backstage.dispatcher)
        self._placed = placed

    async def answer(self, ctx: sdk.Context) -> JsonObject:
        params = ctx.params or {}
        with anyio.move_on_after(ROOTS_SECONDS):
            if not sdk.is_modern(ctx):
                await self._placed.wait()
        scope = self._backstage.scope_of(ctx)
        call = self._read(params, scope)
        activated = scope.activated
        await self._backstage.expect(call.name)
        execute = partial(self._executor.call, call, scope, self._caller(ctx, call))
        outcome = await while_awaited(sdk.request_over(ctx), execute)
        wire = await _once_listed(ctx, outcome, activated)
        return result_for(ctx.protocol_version, wire)

    def _read(self, params: Mapping[str, Any], scope: Scope) -> ToolCall:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise MCPError(INVALID_PARAMS, "tools/call: name must be a string")
        if arguments is not None and not isinstance(arguments, dict):
            raise MCPError(INVALID_PARAMS, "tools/call: arguments must be an object")
        given = cast(JsonObject, arguments or {})
        meta: Json = params.get("_meta")
        meta = meta if isinstance(meta, dict) else {}
        call_id = secrets.token_hex(8)
        tool_use_id = meta.get(TOOL_USE_ID)
        call = ToolCall(
            id=call_id,
            tool_use_id=tool_use_id if isinstance(tool_use_id, str) else call_id,
            name=name,
            arguments=given,
            meta=meta,
        )
        # A question was put about what is inside an envelope.
        call = self._backstage.dispatcher.opened(call)
        return replace(
            call,
            answered=_answered(params, scope, call),
            resumed=_resumed(params, scope, call),
        )

    def _caller(self, ctx: sdk.Context, call: ToolCall) -> Caller:
        token = call.meta.get("progressToken")
        usable = isinstance(token, str | int) and not isinstance(token, bool)
        request = Request(
            channel=sdk.request_outbound(ctx),
            capabilities=sdk.client_capabilities(ctx),
            progress_token=cast("str | int", token) if usable else None,
            room=self._backstage.room,
            client=WireClient(ctx),
        )
        if sdk.is_modern(ctx):
            return RetryingCaller(request)
        knows_modes = ctx.protocol_version >= "2025-11-25"
        return LiveCaller(request, knows_modes, self._backstage.ask_timeout)


async def _once_listed(ctx: sdk.Context, outcome: Outcome, before: Collection[str]) -> JsonObject:
    """The answer; where it brings tools to the client's list, once the client has them there."""
    wire, found = _wire(outcome), _activated(outcome)
    if not found or sdk.is_modern(ctx):
        return wire
    relisting = relisting_of(ctx)
    if found.issubset(before):
        has_them = relisting.follows
    else:
        has_them = await relisting.notice(partial(tell_tools_changed, sdk.connection_outbound(ctx)))
    return call_by_name(wire) if has_them else wire


def _activated(outcome: Outcome) -> frozenset[str]:
    changes = outcome.executed.result.changes if isinstance(outcome, Completed) else ()
    found = (change.tools for change in changes if isinstance(change, ToolsActivated))
    return frozenset(name for names in found for name in names)


def _answered(params: Mapping[str, Any], scope: Scope, call: ToolCall) -> Answered | None:
    """An answer counts only with the state we gave out for this call, and once."""
    state = params.get("requestState")
    if not isinstance(state, str):
        return None
    asked = scope.asks.take(state, call.name, call.arguments)
    answer = responses_of(params).get(INPUT_KEY)
    if asked is None or not isinstance(answer, dict):
        return None
    return Answered(asked, answer)


def _resumed(params: Mapping[str, Any], scope: Scope, call: ToolCall) -> ResumedCall | None:
    """The answers to a server's own questions, for the call that waits for them."""
    state = params.get("requestState")
    request: JsonObject = {"name": call.name, "arguments": call.arguments}
    waiting = scope.rests.take(state, request) if isinstance(state, str) else None
    if waiting is None:
        return None
    return ResumedCall(waiting.review, Resumed(waiting.rest, responses_of(params)))


def _wire(outcome: Outcome) -> JsonObject:
    match outcome:
        case Completed():
            return outcome.wire
        case Refusal():
            return _error(error_text(outcome.message))
        case Cancelled():
            return _error(cancelled_text(outcome))
        case Suspended():
            return input_required(outcome.input_requests, outcome.state)
        case ProtocolError():
            raise MCPError(outcome.code, outcome.message, outcome.data)
        case _:
            assert_never(outcome)


def _error(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": text}], "isError": True}
