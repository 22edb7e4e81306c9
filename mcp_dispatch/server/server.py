"""The MCP server: one middleware around the SDK's server that answers our methods with raw dicts."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import anyio
from mcp_types import INTERNAL_ERROR

from mcp_dispatch import __version__
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.server.backend import Backend
from mcp_dispatch.server.compat import convert_definition
from mcp_dispatch.server.list_changed import build_list_result, get_tracker
from mcp_dispatch.server.prompts import PromptHandler
from mcp_dispatch.server.proxy import UpstreamProxy
from mcp_dispatch.server.resources import ResourceHandler
from mcp_dispatch.server.sessions import ClientSessions
from mcp_dispatch.server.subscriptions import Subscriptions, notify_clients
from mcp_dispatch.server.tools import ROOTS_TIMEOUT_SECONDS, ToolCallHandler
from mcp_dispatch.upstream.listener import ServerNotification
from mcp_dispatch.wire import sdk
from mcp_dispatch.wire.sdk import MCPError

logger = logging.getLogger(__name__)

SERVER_NAME: Final = "mcp-dispatch"
_LEGACY_METHODS: Final = frozenset(
    {"resources/subscribe", "resources/unsubscribe", "logging/setLevel"}
)
"""Methods that 2026-07-28 has removed."""

_LISTED_KINDS: Final = {
    "tools/list": frozenset({"tools"}),
    "prompts/list": frozenset({"prompts"}),
    "resources/list": frozenset({"resources"}),
    "resources/templates/list": frozenset({"resources"}),
}
_LIST_CHANGED_EVENTS: Final = {
    "tools": sdk.ToolsListChanged,
    "prompts": sdk.PromptsListChanged,
    "resources": sdk.ResourcesListChanged,
}

INSTRUCTIONS: Final = (
    "Tools of this machine behind one pipeline. Built-in tools (Read, Write, Edit, Glob, Grep, "
    "Bash, WebFetch) come first, then the tools of upstream servers, named server__tool. Read a "
    "file before you edit or overwrite it. A call may be refused by the user's rules: the answer then says which rule, "
    "and what would allow it; do not try to get around it."
)


class McpServer:
    """Routes each request to its handler; methods without a handler are left to the SDK."""

    def __init__(self, backend: Backend, sessions: ClientSessions) -> None:
        self._backend = backend
        self._sessions = sessions
        self._bus = sdk.InMemorySubscriptionBus()
        self._subscriptions = Subscriptions(backend, self._bus)
        self._listed_kinds: set[str] = set()
        self._roots_known = anyio.Event()
        if not sessions.uses_roots:
            self._roots_known.set()
        proxy = UpstreamProxy(backend, sessions)
        tool_calls = ToolCallHandler(backend, sessions, self._roots_known)
        prompts = PromptHandler(backend, proxy)
        resources = ResourceHandler(backend, sessions, proxy)
        self._handlers: dict[str, Callable[[sdk.Context], Awaitable[JsonObject]]] = {
            "tools/list": self._list_tools,
            "tools/call": tool_calls.handle,
            "prompts/list": prompts.list_prompts,
            "prompts/get": prompts.get_prompt,
            "completion/complete": prompts.complete_argument,
            "resources/list": resources.list_resources,
            "resources/templates/list": resources.list_templates,
            "resources/read": resources.read,
            "resources/subscribe": self._subscriptions.subscribe,
            "resources/unsubscribe": self._subscriptions.unsubscribe,
            "logging/setLevel": self._subscriptions.set_level,
        }
        self.server = sdk.DispatchServer(
            SERVER_NAME,
            version=__version__,
            methods=self._handlers,
            find_input_schema=backend.find_input_schema,
            listen=sdk.ListenHandler(self._bus),
            supports=backend.resource_aggregator.supports,
            middleware=[sdk.create_state_boundary(SERVER_NAME), self._handle],
        )

    async def notify_list_changed(self, kind: str) -> None:
        """Notify clients of both eras, unless no client has listed this kind yet."""
        if kind not in self._listed_kinds:
            return
        await self._bus.publish(_LIST_CHANGED_EVENTS[kind]())
        clients = self._subscriptions.clients
        await notify_clients(clients, f"notifications/{kind}/list_changed", None)

    async def relay_notification(self, notification: ServerNotification) -> None:
        """Send a notification of an upstream to the clients that it concerns."""
        await self._subscriptions.relay_notification(notification)

    async def _handle(self, ctx: sdk.Context, call_next: sdk.CallNext) -> sdk.Result:
        if ctx.request_id is None:
            return await self._handle_notification(ctx, call_next)
        if ctx.method == "subscriptions/listen":
            async with self._subscriptions.track_listen(ctx):
                return await call_next(ctx)
        if ctx.method in ("initialize", "server/discover"):
            response = sdk.with_capabilities(self.server, ctx, await call_next(ctx))
            return sdk.with_instructions(response, self._build_instructions())
        handler = self._handlers.get(ctx.method)
        is_removed = sdk.is_modern(ctx) and ctx.method in _LEGACY_METHODS
        if handler is None or is_removed or not sdk.is_open(ctx):
            return await call_next(ctx)
        try:
            self._listed_kinds |= _LISTED_KINDS.get(ctx.method, frozenset())
            return sdk.complete_result(self.server, ctx, await handler(ctx))
        except MCPError:
            raise
        except Exception as error:  # the edge of the server: log our bug, hide it from the client
            logger.exception("request %s failed", ctx.method)
            raise MCPError(INTERNAL_ERROR, "Internal error; the server's log has it") from error

    def _build_instructions(self) -> str:
        """Return our instructions, followed by the current ones of the upstreams."""
        parts = (
            self._backend.build_instructions(),
            self._backend.resource_aggregator.build_instructions(),
        )
        return "\n".join([INSTRUCTIONS, *(part for part in parts if part)])

    async def _handle_notification(self, ctx: sdk.Context, call_next: sdk.CallNext) -> sdk.Result:
        if ctx.method == "notifications/initialized":
            self._subscriptions.add_client(ctx)
            await self._request_roots(ctx)
        if ctx.method == "notifications/roots/list_changed":
            await self._request_roots(ctx)
        return await call_next(ctx)

    async def _list_tools(self, ctx: sdk.Context) -> JsonObject:
        # Since 2026-07-28 a list must not change because of a call.
        scope = None if sdk.is_modern(ctx) else self._sessions.find_scope(ctx)
        definitions = await self._backend.list_definitions(scope)
        get_tracker(ctx).record_list()
        version = ctx.protocol_version
        entries: list[Json] = [convert_definition(version, each) for each in definitions]
        return build_list_result(ctx, "tools", entries)

    async def _request_roots(self, ctx: sdk.Context) -> None:
        if not self._sessions.uses_roots or "roots" not in sdk.get_client_capabilities(ctx):
            self._roots_known.set()
            return
        try:
            with anyio.move_on_after(ROOTS_TIMEOUT_SECONDS):
                client = sdk.get_connection_outbound(ctx)
                result = await client.send_raw_request("roots/list", {})
                self._backend.use_roots(_parse_roots(result.get("roots")))
        except MCPError as error:
            logger.warning("the client did not send its roots: %s", error)
        finally:
            self._roots_known.set()


def _parse_roots(roots: Json) -> list[Path]:
    """Return the `file:` roots; other roots are not directories of this machine."""
    entries = roots if isinstance(roots, list) else []
    uris = [entry.get("uri") for entry in entries if isinstance(entry, dict)]
    split = [urlsplit(uri) for uri in uris if isinstance(uri, str)]
    return [Path(unquote(parts.path)) for parts in split if parts.scheme == "file"]
