"""The only module that imports the SDK's provisional interfaces; a contract test watches it.

Other modules import the names of the SDK from here.
"""

# ruff: noqa: F401
# pyright: reportUnusedImport=false

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, NoReturn, Self, cast

import anyio
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp.shared.dispatcher import CallOptions, DispatchContext, Outbound, coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import (
    ClientMessageMetadata,
    MessageMetadata,
    ServerMessageMetadata,
    SessionMessage,
)
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

from mcp_dispatch.model.client import PENDING_SECONDS
from mcp_dispatch.model.json import Json, JsonObject

Context = ServerRequestContext[Any, Any]
Middleware = ServerMiddleware[Any]
Result = HandlerResult

PRINCIPAL_KEY: Final = "mcp_dispatch.principal"
"""The key of the ASGI scope that holds the principal of the request."""

REQUEST_ENDED_KEY: Final = "mcp_dispatch.over"
"""The key of the ASGI scope that holds an event: the client disconnected, or the server stops."""


class _Stream:
    """The part that the SDK's read and write streams have in common."""

    def __init__(self) -> None:
        self._closed = False

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class SessionReader(_Stream, ABC):
    """The SDK's interface of a read stream."""

    @abstractmethod
    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises `anyio.EndOfStream`."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class SessionWriter(_Stream, ABC):
    """The SDK's interface of a write stream."""

    @abstractmethod
    async def send(self, item: SessionMessage, /) -> None: ...


class DispatchServer(Server[Any]):
    """A server whose methods are answered by middleware with raw dicts."""

    def __init__(
        self,
        name: str,
        *,
        version: str,
        middleware: Iterable[Middleware],
        methods: Iterable[str] = ("tools/list", "tools/call"),
        listen: ListenHandler | None = None,
        find_input_schema: Callable[[str], JsonObject | None] | None = None,
        supports: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Register `methods`, which the middleware answers, so that the SDK advertises them.

        Without `find_input_schema` the SDK lists all tools for every call over HTTP, to compare
        its headers with the input schema of the tool.
        """
        super().__init__(name, version=version, get_tool_input_schema=find_input_schema)
        self._supports = supports
        # Replaces the SDK's own OpenTelemetry middleware, which is in the list by default.
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
        """Return the capabilities that have a method here and an upstream that supports them."""
        capabilities = super().get_capabilities(
            notification_options,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        # Resources and prompts stay: an upstream that is added later may fill their empty lists,
        # and no notification announces a new capability.
        names = ("logging", "completions")
        unsupported = {name: None for name in names if not self._supports(name)}
        return capabilities.model_copy(update=unsupported)

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
    """Return a middleware that seals request states (2026-07-28) with a key of this process."""
    security = RequestStateSecurity.ephemeral(ttl=PENDING_SECONDS)
    return RequestStateBoundary(security, default_audience=audience)


def is_modern(ctx: Context) -> bool:
    """Whether the request is of the era without a handshake (2026-07-28)."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def is_open(ctx: Context) -> bool:
    """Whether requests may be served: after the handshake, and always in the modern era.

    A middleware that answers by itself runs before the SDK's own check.
    """
    return _get_connection(ctx).initialize_accepted


def get_request_outbound(ctx: Context) -> Outbound:
    """Return the channel of this request; sending requests on it fails in the modern era."""
    return ctx.session._request_outbound  # pyright: ignore[reportPrivateUsage]  no public way


def get_connection_outbound(ctx: Context) -> Outbound:
    """Return the channel that outlives the request; it does not reach modern clients."""
    return _get_connection(ctx).outbound


def get_connection_state(ctx: Context) -> dict[str, Any]:
    """Return a dict of ours that lives as long as the connection (modern era: the request)."""
    return _get_connection(ctx).state


def on_connection_end(ctx: Context, callback: Callable[[], Awaitable[None]]) -> None:
    """Run `callback` when the connection and its calls have ended, for five seconds at most."""
    _get_connection(ctx).exit_stack.push_async_callback(callback)


def get_principal(ctx: Context) -> str:
    """Return the principal that makes this request over HTTP."""
    return str(_get_asgi_scope(ctx)[PRINCIPAL_KEY])


def get_request_ended(ctx: Context) -> anyio.Event | None:
    """Return the event that cancels the request, or None if the SDK detects disconnects itself."""
    return cast("anyio.Event | None", _get_asgi_scope(ctx).get(REQUEST_ENDED_KEY))


def get_client_capabilities(ctx: Context) -> JsonObject:
    """Return what the client declared in the handshake or the request, in its JSON form."""
    declared = ctx.session.client_capabilities
    if declared is None:
        return {}
    return declared.model_dump(by_alias=True, mode="json", exclude_none=True)


def get_raw_meta(ctx: Context) -> JsonObject:
    """Return the unvalidated `_meta` of the request."""
    meta: Json = (ctx.params or {}).get("_meta")
    return meta if isinstance(meta, dict) else {}


def get_progress_token(ctx: Context) -> str | int | None:
    """Return the progress token of the request, or None if it has no valid one."""
    token = get_raw_meta(ctx).get("progressToken")
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None


async def send_progress(ctx: Context, update: JsonObject) -> None:
    """Send a progress notification if the request has a progress token."""
    token = get_progress_token(ctx)
    if token is not None:
        params = {**update, "progressToken": token}
        await get_request_outbound(ctx).notify("notifications/progress", params)


def with_instructions(response: Result, text: str) -> Result:
    """Return the result of `initialize` or `server/discover` with these instructions."""
    if isinstance(response, InitializeResult | DiscoverResult):
        return response.model_copy(update={"instructions": text})
    return {**response, "instructions": text} if isinstance(response, dict) else response


def complete_result(server: DispatchServer, ctx: Context, result: JsonObject) -> JsonObject:
    """Add the members that 2026-07-28 requires in every result of a middleware."""
    if not is_modern(ctx):
        return result
    meta = result.get("_meta")
    server_info: JsonObject = {SERVER_INFO_META_KEY: server.server_info_stamp}
    merged_meta = {**server_info, **(meta if isinstance(meta, dict) else {})}
    return {"resultType": "complete", **result, "_meta": merged_meta}


def with_capabilities(server: DispatchServer, ctx: Context, response: Result) -> Result:
    """Return the result of `initialize` or `server/discover` with the current capabilities."""
    if is_modern(ctx):
        capabilities = server.get_capabilities(protocol_version=ctx.protocol_version)
    else:
        capabilities = server.create_initialization_options().capabilities
    if isinstance(response, InitializeResult | DiscoverResult):
        return response.model_copy(update={"capabilities": capabilities})
    wire = capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {**response, "capabilities": wire} if isinstance(response, dict) else response


def _get_asgi_scope(ctx: Context) -> Mapping[str, Any]:
    """Return the ASGI scope of the HTTP request; empty on other transports."""
    return cast("Mapping[str, Any]", getattr(ctx.request, "scope", {}))


def _get_connection(ctx: Context) -> Connection:
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]  no public way
