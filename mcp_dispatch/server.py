"""The MCP face: wire messages to calls and outcomes back to the wire, in both protocol eras."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, assert_never, cast
from urllib.parse import unquote, urlsplit

import anyio
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from mcp_dispatch import __version__
from mcp_dispatch.approval.client import INPUT_KEY, LiveCaller, Request, RetryingCaller
from mcp_dispatch.dispatcher import Dispatcher
from mcp_dispatch.model.calls import Answered, Completed, Outcome, ToolCall
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import Cancelled, ProtocolError, Refusal, Suspended
from mcp_dispatch.model.questions import Caller
from mcp_dispatch.scope import Scope
from mcp_dispatch.wire import sdk

logger = logging.getLogger(__name__)

SERVER_NAME = "mcp-dispatch"
LIST_TTL_MS = 60_000
ROOTS_SECONDS = 5.0
NOTICE_SECONDS = 5.0
REQUEST_CANCELLED = -32800
RESOURCE_NOT_FOUND = -32002
"""Up to 2025-11-25; since then it is an invalid parameter."""

TOOL_USE_ID = "claudecode/toolUseId"

INSTRUCTIONS = (
    "Tools of this machine behind one pipeline. Built-in tools (Read, Write, Edit, Glob, Grep, "
    "Bash, WebFetch) come first, then the tools of upstream servers, named server__tool. Read a "
    "file before you edit or overwrite it. A call may be refused by the user's rules: the answer then says which rule, "
    "and what would allow it; do not try to get around it."
)


@dataclass(frozen=True, slots=True)
class Backstage:
    """What the face needs of the application."""

    dispatcher: Dispatcher
    scope_of: Callable[[sdk.Context], Scope]
    """Whose state the request shares: the process's, its session's, or its principal's."""

    definitions: Callable[[], Awaitable[list[JsonObject]]]
    """The `tools/list` entries, as they stand now."""

    input_schema: Callable[[str], JsonObject | None]
    """Of the tool with this name, where it is known."""

    expect: Callable[[str], Awaitable[None]]
    """Waits, within a bound, while a server that may own this tool's name is still starting."""

    use_roots: Callable[[Sequence[Path]], None] | None
    """Takes the client's roots for the workspace; None where a flag has named it, and where there
    are several clients."""

    room: Callable[[], Awaitable[None]]
    """Waits while too many answers are unread."""

    ask_timeout: float


class Face:
    """One middleware around the SDK's server: `tools/*` stay raw dicts, the rest is the SDK's."""

    def __init__(self, backstage: Backstage) -> None:
        self._backstage = backstage
        self._bus = InMemorySubscriptionBus()
        self._clients: set[sdk.Outbound] = set()
        self._listed = False
        self._placed = anyio.Event()
        if backstage.use_roots is None:
            self._placed.set()
        self._answers: dict[str, Callable[[sdk.Context], Awaitable[JsonObject]]] = {
            "tools/list": self._list,
            "tools/call": self._call,
            "prompts/list": partial(_nothing_listed, "prompts"),
            "prompts/get": _no_prompt,
            "resources/list": partial(_nothing_listed, "resources"),
            "resources/templates/list": partial(_nothing_listed, "resourceTemplates"),
            "resources/read": _no_resource,
        }
        self.server = sdk.DispatchServer(
            SERVER_NAME,
            version=__version__,
            answers=self._answers,
            instructions=INSTRUCTIONS,
            input_schema=backstage.input_schema,
            listen=ListenHandler(self._bus),
            middleware=[sdk.state_boundary(SERVER_NAME), self._handle],
        )

    async def tools_changed(self) -> None:
        """Tell clients of either era, in the way of their era; who never listed need not know."""
        if not self._listed:
            return
        await self._bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as notices:
            for client in self._clients:
                notices.start_soon(_notice, client)

    async def _handle(self, ctx: sdk.Context, call_next: sdk.CallNext) -> sdk.Result:
        if ctx.request_id is None:
            return await self._note(ctx, call_next)
        answer = self._answers.get(ctx.method)
        if answer is None or not sdk.is_open(ctx):
            return await call_next(ctx)
        try:
            return sdk.complete(self.server, ctx, await answer(ctx))
        except MCPError:
            raise
        except Exception as error:  # the server's edge: a bug of ours is logged, never told
            logger.exception("request %s failed", ctx.method)
            raise MCPError(INTERNAL_ERROR, "Internal error; the server's log has it") from error

    async def _note(self, ctx: sdk.Context, call_next: sdk.CallNext) -> sdk.Result:
        if ctx.method == "notifications/initialized":
            self._remember(ctx)
            await self._ask_for_roots(ctx)
        if ctx.method == "notifications/roots/list_changed":
            await self._ask_for_roots(ctx)
        return await call_next(ctx)

    def _remember(self, ctx: sdk.Context) -> None:
        """Until its connection ends, the client is told of changes."""
        client = sdk.connection_outbound(ctx)
        if client in self._clients:
            return

        async def forget() -> None:
            self._clients.discard(client)

        self._clients.add(client)
        sdk.at_connection_end(ctx, forget)

    async def _list(self, ctx: sdk.Context) -> JsonObject:
        self._listed = True
        return _listing(ctx, "tools", cast("list[Json]", await self._backstage.definitions()))

    async def _call(self, ctx: sdk.Context) -> JsonObject:
        params = ctx.params or {}
        with anyio.move_on_after(ROOTS_SECONDS):
            if not sdk.is_modern(ctx):
                await self._placed.wait()
        scope = self._backstage.scope_of(ctx)
        call = self._read(params, scope)
        await self._backstage.expect(call.name)
        dispatch = partial(
            self._backstage.dispatcher.dispatch, call, scope, self._caller(ctx, call)
        )
        return _wire(await _while_awaited(sdk.request_over(ctx), dispatch))

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
        return ToolCall(
            id=call_id,
            tool_use_id=tool_use_id if isinstance(tool_use_id, str) else call_id,
            name=name,
            arguments=given,
            meta=meta,
            answered=_answered(params, scope, name, given),
        )

    def _caller(self, ctx: sdk.Context, call: ToolCall) -> Caller:
        token = call.meta.get("progressToken")
        usable = isinstance(token, str | int) and not isinstance(token, bool)
        request = Request(
            channel=sdk.request_outbound(ctx),
            capabilities=sdk.client_capabilities(ctx),
            progress_token=cast("str | int", token) if usable else None,
            room=self._backstage.room,
        )
        if sdk.is_modern(ctx):
            return RetryingCaller(request)
        knows_modes = ctx.protocol_version >= "2025-11-25"
        return LiveCaller(request, knows_modes, self._backstage.ask_timeout)

    async def _ask_for_roots(self, ctx: sdk.Context) -> None:
        use_roots = self._backstage.use_roots
        if use_roots is None or "roots" not in sdk.client_capabilities(ctx):
            self._placed.set()
            return
        try:
            with anyio.move_on_after(ROOTS_SECONDS):
                answer = await sdk.connection_outbound(ctx).send_raw_request("roots/list", {})
                use_roots(_paths(answer.get("roots")))
        except MCPError as error:
            logger.warning("the client did not tell its roots: %s", error)
        finally:
            self._placed.set()


async def _while_awaited(
    over: anyio.Event | None, dispatch: Callable[[], Awaitable[Outcome]]
) -> Outcome:
    """Runs the call for as long as somebody waits for its answer."""
    if over is None:
        return await dispatch()
    outcomes: list[Outcome] = []
    async with anyio.create_task_group() as tasks:

        async def leave() -> None:
            await over.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(leave)
        outcomes.append(await dispatch())
        tasks.cancel_scope.cancel()
    if not outcomes:
        raise MCPError(REQUEST_CANCELLED, "the call was cancelled: the server is stopping")
    return outcomes[0]


async def _notice(client: sdk.Outbound) -> None:
    # One client that does not read must not keep the news from the others.
    with anyio.move_on_after(NOTICE_SECONDS):
        await client.notify("notifications/tools/list_changed", None)


def _listing(ctx: sdk.Context, key: str, entries: list[Json]) -> JsonObject:
    listed: JsonObject = {key: entries}
    return (
        listed | {"ttlMs": LIST_TTL_MS, "cacheScope": "private"} if sdk.is_modern(ctx) else listed
    )


async def _nothing_listed(key: str, ctx: sdk.Context) -> JsonObject:
    return _listing(ctx, key, [])


async def _no_prompt(ctx: sdk.Context) -> JsonObject:
    name = (ctx.params or {}).get("name")
    if not isinstance(name, str):
        raise MCPError(INVALID_PARAMS, "prompts/get: name must be a string")
    raise MCPError(INVALID_PARAMS, "Prompt not found", {"name": name})


async def _no_resource(ctx: sdk.Context) -> JsonObject:
    uri = (ctx.params or {}).get("uri")
    if not isinstance(uri, str):
        raise MCPError(INVALID_PARAMS, "resources/read: uri must be a string")
    code = INVALID_PARAMS if sdk.is_modern(ctx) else RESOURCE_NOT_FOUND
    raise MCPError(code, "Resource not found", {"uri": uri})


def _answered(
    params: Mapping[str, Any], scope: Scope, name: str, arguments: JsonObject
) -> Answered | None:
    """An answer counts only with the state we gave out for this call, and once."""
    state, responses = params.get("requestState"), params.get("inputResponses")
    if not isinstance(state, str):
        return None
    asked = scope.asks.take(state, name, arguments)
    answers = cast(JsonObject, responses) if isinstance(responses, dict) else {}
    answer = answers.get(INPUT_KEY)
    if asked is None or not isinstance(answer, dict):
        return None
    return Answered(asked, answer)


def _paths(roots: Json) -> list[Path]:
    """The `file:` roots; others are no directories of this machine."""
    uris = (
        [root.get("uri") for root in roots if isinstance(root, dict)]
        if isinstance(roots, list)
        else []
    )
    split = [urlsplit(uri) for uri in uris if isinstance(uri, str)]
    return [Path(unquote(parts.path)) for parts in split if parts.scheme == "file"]


def _wire(outcome: Outcome) -> JsonObject:
    match outcome:
        case Completed():
            return outcome.wire
        case Refusal():
            return _error(outcome.message)
        case Cancelled():
            return _error(f"The call was cancelled: {outcome.message or outcome.reason.value}")
        case Suspended():
            return {
                "resultType": "input_required",
                "inputRequests": outcome.input_requests,
                "requestState": outcome.state,
            }
        case ProtocolError():
            raise MCPError(outcome.code, outcome.message, outcome.data)
        case _:
            assert_never(outcome)


def _error(message: str) -> JsonObject:
    text = f"<tool_use_error>{message}</tool_use_error>"
    return {"content": [{"type": "text", "text": text}], "isError": True}
