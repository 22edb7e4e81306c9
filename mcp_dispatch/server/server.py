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
from mcp_dispatch.server.backend import Backstage
from mcp_dispatch.server.compat import definition_for
from mcp_dispatch.server.list_changed import listing, relisting_of
from mcp_dispatch.server.prompts import Prompts
from mcp_dispatch.server.proxy import Passage
from mcp_dispatch.server.resources import Resources
from mcp_dispatch.server.subscriptions import Subscriptions, notify_each
from mcp_dispatch.server.tools import ROOTS_SECONDS, Calls
from mcp_dispatch.upstream.requests.relay import Notice
from mcp_dispatch.wire import sdk

logger = logging.getLogger(__name__)

SERVER_NAME = "mcp-dispatch"
_UP_TO_2025: Final = frozenset({"resources/subscribe", "resources/unsubscribe", "logging/setLevel"})
_LISTS: Final = {
    "tools/list": frozenset({"tools"}),
    "prompts/list": frozenset({"prompts"}),
    "resources/list": frozenset({"resources"}),
    "resources/templates/list": frozenset({"resources"}),
}
_EVENTS: Final = {
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


class Face:
    """One middleware around the SDK's server: `tools/*` stay raw dicts, the rest is the SDK's."""

    def __init__(self, backstage: Backstage) -> None:
        self._backstage = backstage
        self._bus = InMemorySubscriptionBus()
        self._subscriptions = Subscriptions(backstage, self._bus)
        self._listed: set[str] = set()
        self._placed = anyio.Event()
        if backstage.use_roots is None:
            self._placed.set()
        self._calls = Calls(backstage, self._placed)
        passage = Passage(backstage)
        prompts, resources = Prompts(backstage, passage), Resources(backstage, passage)
        self._answers: dict[str, Callable[[sdk.Context], Awaitable[JsonObject]]] = {
            "tools/list": self._list,
            "tools/call": self._calls.answer,
            "prompts/list": prompts.listed,
            "prompts/get": prompts.get,
            "completion/complete": prompts.complete,
            "resources/list": resources.listed,
            "resources/templates/list": resources.listed_templates,
            "resources/read": resources.read,
            "resources/subscribe": self._subscriptions.subscribe,
            "resources/unsubscribe": self._subscriptions.unsubscribe,
            "logging/setLevel": self._subscriptions.set_level,
        }
        self.server = sdk.DispatchServer(
            SERVER_NAME,
            version=__version__,
            answers=self._answers,
            instructions=INSTRUCTIONS,
            input_schema=backstage.input_schema,
            listen=ListenHandler(self._bus),
            provides=backstage.provides,
            middleware=[sdk.state_boundary(SERVER_NAME), self._handle],
        )

    async def list_changed(self, what: str) -> None:
        """Tell clients of either era, in the way of their era; who never listed need not know."""
        if what not in self._listed:
            return
        await self._bus.publish(_EVENTS[what]())
        clients = self._subscriptions.clients
        await notify_each(clients, f"notifications/{what}/list_changed", None)

    async def pass_on(self, notice: Notice) -> None:
        """What a server behind us said unasked."""
        await self._subscriptions.pass_on(notice)

    async def _handle(self, ctx: sdk.Context, call_next: sdk.CallNext) -> sdk.Result:
        if ctx.request_id is None:
            return await self._note(ctx, call_next)
        if ctx.method == "subscriptions/listen":
            async with self._subscriptions.listening(ctx):
                return await call_next(ctx)
        if ctx.method in ("initialize", "server/discover"):
            greeting = sdk.with_capabilities(self.server, ctx, await call_next(ctx))
            return sdk.with_instructions(greeting, self._instructions())
        answer = self._answers.get(ctx.method)
        gone = sdk.is_modern(ctx) and ctx.method in _UP_TO_2025
        if answer is None or gone or not sdk.is_open(ctx):
            return await call_next(ctx)
        try:
            self._listed |= _LISTS.get(ctx.method, frozenset())
            return sdk.complete(self.server, ctx, await answer(ctx))
        except MCPError:
            raise
        except Exception as error:  # the server's edge: a bug of ours is logged, never told
            logger.exception("request %s failed", ctx.method)
            raise MCPError(INTERNAL_ERROR, "Internal error; the server's log has it") from error

    def _instructions(self) -> str:
        """Ours and, as they stand now, those of the servers behind us."""
        parts = (self._backstage.instructions(), self._backstage.offered.instructions())
        return "\n".join([INSTRUCTIONS, *(part for part in parts if part)])

    async def _note(self, ctx: sdk.Context, call_next: sdk.CallNext) -> sdk.Result:
        if ctx.method == "notifications/initialized":
            self._subscriptions.remember(ctx)
            await self._ask_for_roots(ctx)
        if ctx.method == "notifications/roots/list_changed":
            await self._ask_for_roots(ctx)
        return await call_next(ctx)

    async def _list(self, ctx: sdk.Context) -> JsonObject:
        # Since 2026-07-28 a list must not change because of a call.
        finder = None if sdk.is_modern(ctx) else self._backstage.scope_of(ctx)
        definitions = await self._backstage.definitions(finder)
        relisting_of(ctx).listed()
        shown: list[Json] = [definition_for(ctx.protocol_version, each) for each in definitions]
        return listing(ctx, "tools", shown)

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


def _paths(roots: Json) -> list[Path]:
    """The `file:` roots; others are no directories of this machine."""
    uris = (
        [root.get("uri") for root in roots if isinstance(root, dict)]
        if isinstance(roots, list)
        else []
    )
    split = [urlsplit(uri) for uri in uris if isinstance(uri, str)]
    return [Path(unquote(parts.path)) for parts in split if parts.scheme == "file"]
