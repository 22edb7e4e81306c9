"""One middleware around the SDK's server: our methods stay raw dicts, the rest is the SDK's."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import anyio
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from mcp_dispatch import __version__
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.server.backstage import Backstage
from mcp_dispatch.server.calls import ROOTS_SECONDS, Calls
from mcp_dispatch.server.listing import listing, no_prompt, nothing_listed
from mcp_dispatch.server.older import definition_for
from mcp_dispatch.server.relisting import relisting_of, tell_tools_changed
from mcp_dispatch.server.resources import Resources
from mcp_dispatch.wire import sdk

logger = logging.getLogger(__name__)

SERVER_NAME = "mcp-dispatch"
NOTICE_SECONDS = 5.0

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
        self._clients: set[sdk.Outbound] = set()
        self._listed = False
        self._placed = anyio.Event()
        if backstage.use_roots is None:
            self._placed.set()
        self._calls = Calls(backstage, self._placed)
        self._answers: dict[str, Callable[[sdk.Context], Awaitable[JsonObject]]] = {
            "tools/list": self._list,
            "tools/call": self._calls.answer,
            "prompts/list": partial(nothing_listed, "prompts"),
            "prompts/get": no_prompt,
            "resources/list": partial(nothing_listed, "resources"),
            "resources/templates/list": partial(nothing_listed, "resourceTemplates"),
            "resources/read": Resources(backstage).read,
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
        if ctx.method in ("initialize", "server/discover"):
            more = self._backstage.instructions()
            text = f"{INSTRUCTIONS}\n{more}" if more else INSTRUCTIONS
            return sdk.with_instructions(await call_next(ctx), text)
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
        # Since 2026-07-28 a list must not change because of a call.
        finder = None if sdk.is_modern(ctx) else self._backstage.scope_of(ctx)
        definitions = await self._backstage.definitions(finder)
        relisting_of(ctx).listed()
        self._listed = True
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


async def _notice(client: sdk.Outbound) -> None:
    # One client that does not read must not keep the news from the others.
    with anyio.move_on_after(NOTICE_SECONDS):
        await tell_tools_changed(client)


def _paths(roots: Json) -> list[Path]:
    """The `file:` roots; others are no directories of this machine."""
    uris = (
        [root.get("uri") for root in roots if isinstance(root, dict)]
        if isinstance(roots, list)
        else []
    )
    split = [urlsplit(uri) for uri in uris if isinstance(uri, str)]
    return [Path(unquote(parts.path)) for parts in split if parts.scheme == "file"]
