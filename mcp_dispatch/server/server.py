"""One middleware around the SDK's server: our methods stay raw dicts, the rest is the SDK's."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import anyio
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from mcp_dispatch import __version__
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.server.backend import Backend
from mcp_dispatch.server.compat import convert_definition
from mcp_dispatch.server.list_changed import build_list_result, get_tracker
from mcp_dispatch.server.prompts import PromptHandler
from mcp_dispatch.server.proxy import UpstreamProxy
from mcp_dispatch.server.resources import ResourceHandler
from mcp_dispatch.server.subscriptions import Subscriptions, notify_clients
from mcp_dispatch.server.tools import ROOTS_TIMEOUT_SECONDS, ToolCallHandler
from mcp_dispatch.upstream.requests.relay import ServerNotification
from mcp_dispatch.wire import sdk

logger = logging.getLogger(__name__)

SERVER_NAME = "mcp-dispatch"
_LEGACY_METHODS: Final = frozenset(
    {"resources/subscribe", "resources/unsubscribe", "logging/setLevel"}
)
_LISTED_KINDS: Final = {
    "tools/list": frozenset({"tools"}),
    "prompts/list": frozenset({"prompts"}),
    "resources/list": frozenset({"resources"}),
    "resources/templates/list": frozenset({"resources"}),
}
_LIST_CHANGED_EVENTS: Final = {
    "tools": ToolsListChanged,
    "prompts": PromptsListChanged,
    "resources": ResourcesListChanged,
}

INSTRUCTIONS = (
    "Tools of this machine behind one pipeline. Built-in tools (Read, Write, Edit, Glob, Grep, "
    "Bash, WebFetch) come first, then the tools of upstream servers, named server__tool. Read a "
    "file before you edit or overwrite it. A call may be refused by the user's rules: the answer then says which rule, "
    "and what would allow it; do not try to get around it."
)


class McpServer:
    """One middleware around the SDK's server: `tools/*` stay raw dicts, the rest is the SDK's."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._bus = InMemorySubscriptionBus()
        self._subscriptions = Subscriptions(backend, self._bus)
        self._listed_kinds: set[str] = set()
        self._roots_known = anyio.Event()
        if backend.use_roots is None:
            self._roots_known.set()
        self._tool_calls = ToolCallHandler(backend, self._roots_known)
        passage = UpstreamProxy(backend)
        prompts, resources = PromptHandler(backend, passage), ResourceHandler(backend, passage)
        self._handlers: dict[str, Callable[[sdk.Context], Awaitable[JsonObject]]] = {
            "tools/list": self._list_tools,
            "tools/call": self._tool_calls.handle,
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
            instructions=INSTRUCTIONS,
            find_input_schema=backend.find_input_schema,
            listen=ListenHandler(self._bus),
            supports=backend.supports,
            middleware=[sdk.create_state_boundary(SERVER_NAME), self._handle],
        )

    async def notify_list_changed(self, kind: str) -> None:
        """Tell clients of either era, in the way of their era; who never listed need not know."""
        if kind not in self._listed_kinds:
            return
        await self._bus.publish(_LIST_CHANGED_EVENTS[kind]())
        clients = self._subscriptions.clients
        await notify_clients(clients, f"notifications/{kind}/list_changed", None)

    async def relay_notification(self, notice: ServerNotification) -> None:
        """What a server behind us said unasked."""
        await self._subscriptions.relay_notification(notice)

    async def _handle(self, ctx: sdk.Context, call_next: sdk.CallNext) -> sdk.Result:
        if ctx.request_id is None:
            return await self._handle_notification(ctx, call_next)
        if ctx.method == "subscriptions/listen":
            async with self._subscriptions.track_listen(ctx):
                return await call_next(ctx)
        if ctx.method in ("initialize", "server/discover"):
            greeting = sdk.with_capabilities(self.server, ctx, await call_next(ctx))
            return sdk.with_instructions(greeting, self._build_instructions())
        answer = self._handlers.get(ctx.method)
        gone = sdk.is_modern(ctx) and ctx.method in _LEGACY_METHODS
        if answer is None or gone or not sdk.is_open(ctx):
            return await call_next(ctx)
        try:
            self._listed_kinds |= _LISTED_KINDS.get(ctx.method, frozenset())
            return sdk.complete_result(self.server, ctx, await answer(ctx))
        except MCPError:
            raise
        except Exception as error:  # the server's edge: a bug of ours is logged, never told
            logger.exception("request %s failed", ctx.method)
            raise MCPError(INTERNAL_ERROR, "Internal error; the server's log has it") from error

    def _build_instructions(self) -> str:
        """Ours and, as they stand now, those of the servers behind us."""
        parts = (self._backend.build_instructions(), self._backend.aggregator.build_instructions())
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
        finder = None if sdk.is_modern(ctx) else self._backend.find_scope(ctx)
        definitions = await self._backend.list_definitions(finder)
        get_tracker(ctx).record_list()
        shown: list[Json] = [convert_definition(ctx.protocol_version, each) for each in definitions]
        return build_list_result(ctx, "tools", shown)

    async def _request_roots(self, ctx: sdk.Context) -> None:
        use_roots = self._backend.use_roots
        if use_roots is None or "roots" not in sdk.get_client_capabilities(ctx):
            self._roots_known.set()
            return
        try:
            with anyio.move_on_after(ROOTS_TIMEOUT_SECONDS):
                answer = await sdk.get_connection_outbound(ctx).send_raw_request("roots/list", {})
                use_roots(_parse_roots(answer.get("roots")))
        except MCPError as error:
            logger.warning("the client did not tell its roots: %s", error)
        finally:
            self._roots_known.set()


def _parse_roots(roots: Json) -> list[Path]:
    """The `file:` roots; others are no directories of this machine."""
    uris = (
        [root.get("uri") for root in roots if isinstance(root, dict)]
        if isinstance(roots, list)
        else []
    )
    split = [urlsplit(uri) for uri in uris if isinstance(uri, str)]
    return [Path(unquote(parts.path)) for parts in split if parts.scheme == "file"]
