"""The one module that touches the SDK's provisional surface; a contract test watches it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn, cast
from uuid import uuid4

import anyio
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.dispatcher import CallOptions, Outbound
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    METHOD_NOT_FOUND,
    SERVER_INFO_META_KEY,
    DiscoverResult,
    InitializeResult,
    RequestParams,
    ServerCapabilities,
    SubscriptionsListenRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.sdk_streams import SessionReader, SessionWriter

__all__ = [
    "PRINCIPAL_KEY",
    "REQUEST_ENDED_KEY",
    "CallNext",
    "CallOptions",
    "Context",
    "DispatchServer",
    "MCPError",
    "Middleware",
    "Outbound",
    "Result",
    "complete_result",
    "create_state_boundary",
    "get_client_capabilities",
    "get_connection_key",
    "get_connection_outbound",
    "get_connection_state",
    "get_principal",
    "get_raw_meta",
    "get_request_ended",
    "get_request_outbound",
    "is_modern",
    "is_open",
    "on_connection_end",
    "open_dispatcher",
    "send_progress",
    "serve",
    "with_capabilities",
    "with_instructions",
]

Context = ServerRequestContext[Any, Any]
Middleware = ServerMiddleware[Any]
Result = HandlerResult

STATE_TTL_SECONDS = 600
_CONNECTION_KEY = "mcp_dispatch/connection"

PRINCIPAL_KEY = "mcp_dispatch.principal"
"""Under this key of an ASGI scope stands who makes the request."""

REQUEST_ENDED_KEY = "mcp_dispatch.over"
"""Under this key of an ASGI scope stands an event: the client has left, or the server ends."""


class DispatchServer(Server[Any]):
    """A server whose methods are answered by middleware with raw dicts.

    `answers` names the methods that the middleware answers, which makes the SDK advertise them.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str,
        middleware: Iterable[Middleware],
        methods: Iterable[str] = ("tools/list", "tools/call"),
        instructions: str | None = None,
        listen: ListenHandler | None = None,
        find_input_schema: Callable[[str], JsonObject | None] | None = None,
        supports: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Without `input_schema`, which finds a tool's schema by its name, the SDK lists all tools
        for every call over HTTP, to compare its headers."""
        super().__init__(
            name,
            version=version,
            instructions=instructions,
            get_tool_input_schema=find_input_schema,
        )
        self._supports = supports
        # The SDK puts a middleware of its own, for OpenTelemetry, into this list.
        self.middleware[:] = middleware
        for method in methods:
            self.add_request_handler(method, RequestParams, _reject_method)
        if listen is not None:
            self.add_request_handler(
                "subscriptions/listen", SubscriptionsListenRequestParams, listen
            )

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """What can be answered and is offered by somebody."""
        every = super().get_capabilities(
            notification_options,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        # Lists may be empty now and filled by a server that is added later; nothing announces that.
        names = ("logging", "completions")
        return every.model_copy(update={name: None for name in names if not self._supports(name)})

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        # Not every transport of the SDK passes options; without them listChanged would be false.
        options = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(options, experimental_capabilities, extensions)


async def _reject_method(ctx: Context, params: RequestParams) -> NoReturn:
    raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)


async def serve(server: DispatchServer, reader: SessionReader, writer: SessionWriter) -> None:
    """Serve one client, in the era of its first request, until `reader` ends."""
    await server.run(reader, writer, server.create_initialization_options())


def create_state_boundary(audience: str) -> Middleware:
    """Seals the request state of 2026-07-28 under a key that lives as long as the process."""
    security = RequestStateSecurity.ephemeral(ttl=STATE_TTL_SECONDS)
    return RequestStateBoundary(security, default_audience=audience)


def open_dispatcher(
    reader: SessionReader, writer: SessionWriter
) -> JSONRPCDispatcher[TransportContext]:
    """A raw JSON-RPC peer for an upstream: `run`, `send_raw_request`, `notify`."""
    return JSONRPCDispatcher[TransportContext](reader, writer)


def is_modern(ctx: Context) -> bool:
    """Whether the request is of the era without a handshake (2026-07-28)."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def is_open(ctx: Context) -> bool:
    """Whether requests may be served: after the handshake, and always in the modern era.

    A middleware that answers by itself comes before the SDK's own check.
    """
    return _get_connection(ctx).initialize_accepted


def get_request_outbound(ctx: Context) -> Outbound:
    """The channel that belongs to this request; requests on it fail in the modern era."""
    return ctx.session._request_outbound  # pyright: ignore[reportPrivateUsage]  no public way


def get_connection_outbound(ctx: Context) -> Outbound:
    """The channel that outlives the request, for `list_changed`; modern clients get none there."""
    return _get_connection(ctx).outbound


def get_connection_state(ctx: Context) -> dict[str, Any]:
    """Ours to fill; as old as the connection, which in the modern era is one request."""
    return _get_connection(ctx).state


def get_connection_key(ctx: Context) -> str | None:
    """Tells connections apart; None in the modern era, which has none."""
    if is_modern(ctx):
        return None
    return str(get_connection_state(ctx).setdefault(_CONNECTION_KEY, uuid4().hex))


def on_connection_end(ctx: Context, callback: Callable[[], Awaitable[None]]) -> None:
    """`then` runs once the connection is over and its calls have ended, for five seconds at most."""
    _get_connection(ctx).exit_stack.push_async_callback(callback)


def get_principal(ctx: Context) -> str:
    """Who makes this request over HTTP."""
    return str(_get_asgi_scope(ctx)[PRINCIPAL_KEY])


def get_request_ended(ctx: Context) -> anyio.Event | None:
    """Set when nobody waits for the answer any more; None where the SDK itself notices that."""
    return cast("anyio.Event | None", _get_asgi_scope(ctx).get(REQUEST_ENDED_KEY))


def get_client_capabilities(ctx: Context) -> JsonObject:
    """What the client declared, in the handshake or with the request, as it looks on the wire."""
    declared = ctx.session.client_capabilities
    if declared is None:
        return {}
    return declared.model_dump(by_alias=True, mode="json", exclude_none=True)


def get_raw_meta(ctx: Context) -> JsonObject:
    """The request's `_meta` as it came."""
    meta: Json = (ctx.params or {}).get("_meta")
    return meta if isinstance(meta, dict) else {}


async def send_progress(ctx: Context, update: JsonObject) -> None:
    """Tell the client of progress as it came, if it asked to be told."""
    token = get_raw_meta(ctx).get("progressToken")
    if isinstance(token, (str, int)) and not isinstance(token, bool):
        params = {**update, "progressToken": token}
        await get_request_outbound(ctx).notify("notifications/progress", params)


def with_instructions(response: Result, text: str) -> Result:
    """The answer to `initialize` or `server/discover`, with these instructions."""
    if isinstance(response, InitializeResult | DiscoverResult):
        return response.model_copy(update={"instructions": text})
    return {**response, "instructions": text} if isinstance(response, dict) else response


def complete_result(server: DispatchServer, ctx: Context, result: JsonObject) -> JsonObject:
    """The envelope that 2026-07-28 asks of a result given by middleware; else the result itself."""
    if not is_modern(ctx):
        return result
    given = result.get("_meta")
    meta = given if isinstance(given, dict) else {}
    stamp: JsonObject = {SERVER_INFO_META_KEY: server.server_info_stamp}
    return {"resultType": "complete", **result, "_meta": {**stamp, **meta}}


def with_capabilities(server: DispatchServer, ctx: Context, response: Result) -> Result:
    """The answer to `initialize` or `server/discover`, with what is offered by now."""
    version = ctx.protocol_version if is_modern(ctx) else None
    legacy = server.create_initialization_options().capabilities
    now = legacy if version is None else server.get_capabilities(protocol_version=version)
    if isinstance(response, InitializeResult | DiscoverResult):
        return response.model_copy(update={"capabilities": now})
    wire = now.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {**response, "capabilities": wire} if isinstance(response, dict) else response


def _get_asgi_scope(ctx: Context) -> Mapping[str, Any]:
    """Of the HTTP request that brought this one; empty on other transports."""
    return cast("Mapping[str, Any]", getattr(ctx.request, "scope", {}))


def _get_connection(ctx: Context) -> Connection:
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]  no public way
