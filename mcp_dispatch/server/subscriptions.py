"""Who wants to hear of which resource, and of which log messages; servers are told the sum of it."""

import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from mcp.server.subscriptions import ResourceUpdated, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.server.backend import Backstage
from mcp_dispatch.server.client import LEVELS, MESSAGE, is_wanted, want_level, wanted_level
from mcp_dispatch.server.resources import not_found, uri_of
from mcp_dispatch.upstream.requests.relay import UPDATED, Notice
from mcp_dispatch.wire import sdk

logger = logging.getLogger(__name__)

MOST_WATCHED = 1_000
"""Resources of one client."""

NOTICE_SECONDS = 5.0


class Subscriptions:
    """Clients up to 2025-11-25 are known here from their handshake to their end; later ones for as
    long as they listen."""

    def __init__(self, backstage: Backstage, bus: SubscriptionBus) -> None:
        self._backstage = backstage
        self._bus = bus
        self._states: dict[sdk.Outbound, dict[str, Any]] = {}
        self._watched: dict[object, set[str]] = {}

    @property
    def clients(self) -> list[sdk.Outbound]:
        return list(self._states)

    def remember(self, ctx: sdk.Context) -> None:
        """Until its connection ends, the client is told things."""
        client = sdk.connection_outbound(ctx)
        if client in self._states:
            return

        async def forget() -> None:
            self._states.pop(client, None)
            if self._watched.pop(client, None):
                await self._tell_servers()

        self._states[client] = sdk.connection_state(ctx)
        sdk.at_connection_end(ctx, forget)

    # -- resources

    async def subscribe(self, ctx: sdk.Context) -> JsonObject:
        uri = uri_of(ctx)
        if (await self._backstage.offers()).owner_of(uri) is None:
            raise not_found(ctx, uri)
        watched = self._watched.setdefault(sdk.connection_outbound(ctx), set())
        if len(watched) >= MOST_WATCHED:
            raise MCPError(INVALID_PARAMS, f"more than {MOST_WATCHED} resources are subscribed to")
        watched.add(uri)
        await self._tell_servers()
        return {}

    async def unsubscribe(self, ctx: sdk.Context) -> JsonObject:
        self._watched.get(sdk.connection_outbound(ctx), set()).discard(uri_of(ctx))
        await self._tell_servers()
        return {}

    @asynccontextmanager
    async def listening(self, ctx: sdk.Context) -> AsyncGenerator[None, None]:
        """While a `subscriptions/listen` is open, servers are told what it wants to hear of."""
        listener, uris = object(), _listened_to(ctx)
        if not uris:
            yield
            return
        self._watched[listener] = set(uris)
        try:
            await self._tell_servers()
            yield
        finally:
            del self._watched[listener]
            with anyio.move_on_after(NOTICE_SECONDS, shield=True):
                await self._tell_servers()

    async def _tell_servers(self) -> None:
        offered = await self._backstage.offers()
        wanted: dict[str, set[str]] = {server.name: set() for server in offered.servers}
        for uri in {uri for uris in self._watched.values() for uri in uris}:
            owner = offered.owner_of(uri)
            if owner is not None:
                wanted[owner.name].add(uri)
        for server in offered.servers:
            await server.shelf.watch(frozenset(wanted[server.name]))

    # -- log messages

    async def set_level(self, ctx: sdk.Context) -> JsonObject:
        level = (ctx.params or {}).get("level")
        if level not in LEVELS:
            raise MCPError(INVALID_PARAMS, f"logging/setLevel: expected one of {', '.join(LEVELS)}")
        want_level(sdk.connection_state(ctx), cast(str, level))
        levels = [wanted_level(state) for state in self._states.values()]
        lowest = min((each for each in levels if each), key=LEVELS.index, default=cast(str, level))
        for server in (await self._backstage.offers()).servers:
            await server.shelf.hear_from(lowest)
        return {}

    # -- what servers say

    async def pass_on(self, notice: Notice) -> None:
        if notice.method == UPDATED:
            await self._updated(notice)
        elif notice.errand is not None:
            await notice.errand.respondent.client.tell(notice.method, notice.params)
        else:
            await self._tell_all(notice)

    async def _updated(self, notice: Notice) -> None:
        uri = notice.params.get("uri")
        if not isinstance(uri, str):
            return
        owner = (await self._backstage.offers()).owner_of(uri)
        if owner is None or owner.name != notice.server:
            return  # it speaks of what is another's
        await self._bus.publish(ResourceUpdated(uri=uri))
        hearing = [each for each, uris in self._watched.items() if uri in uris]
        clients = [each for each in self._states if each in hearing]
        await notify_each(clients, notice.method, notice.params)

    async def _tell_all(self, notice: Notice) -> None:
        """What belongs to no request is for everybody who may hear it."""
        clients = [
            client
            for client, state in self._states.items()
            if notice.method != MESSAGE or is_wanted(notice.params, wanted_level(state))
        ]
        await notify_each(clients, notice.method, notice.params)


async def notify_each(
    clients: Iterable[sdk.Outbound], method: str, params: JsonObject | None
) -> None:
    async def notify(client: sdk.Outbound) -> None:
        # One client that does not read must not keep the news from the others.
        with anyio.move_on_after(NOTICE_SECONDS):
            await client.notify(method, params)

    async with anyio.create_task_group() as notices:
        for client in clients:
            notices.start_soon(notify, client)


def _listened_to(ctx: sdk.Context) -> list[str]:
    wanted = (ctx.params or {}).get("notifications")
    given = cast(JsonObject, wanted) if isinstance(wanted, dict) else {}
    uris = given.get("resourceSubscriptions")
    found = uris if isinstance(uris, list) else []
    return [uri for uri in found if isinstance(uri, str)][:MOST_WATCHED]
