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
from mcp_dispatch.server.backend import Backend
from mcp_dispatch.server.client import (
    LOG_LEVELS,
    LOG_MESSAGE_METHOD,
    get_log_level,
    is_severe_enough,
    set_log_level,
)
from mcp_dispatch.server.resources import build_not_found_error, parse_uri
from mcp_dispatch.upstream.requests.relay import RESOURCE_UPDATED, ServerNotification
from mcp_dispatch.wire import sdk

logger = logging.getLogger(__name__)

MAX_SUBSCRIPTIONS = 1_000
"""Resources of one client."""

NOTIFY_TIMEOUT_SECONDS = 5.0


class Subscriptions:
    """Clients up to 2025-11-25 are known here from their handshake to their end; later ones for as
    long as they listen."""

    def __init__(self, backend: Backend, bus: SubscriptionBus) -> None:
        self._backend = backend
        self._bus = bus
        self._states: dict[sdk.Outbound, dict[str, Any]] = {}
        self._subscribed_uris: dict[object, set[str]] = {}

    @property
    def clients(self) -> list[sdk.Outbound]:
        return list(self._states)

    def add_client(self, ctx: sdk.Context) -> None:
        """Until its connection ends, the client is told things."""
        client = sdk.get_connection_outbound(ctx)
        if client in self._states:
            return

        async def remove_client() -> None:
            self._states.pop(client, None)
            if self._subscribed_uris.pop(client, None):
                await self._update_servers()

        self._states[client] = sdk.get_connection_state(ctx)
        sdk.on_connection_end(ctx, remove_client)

    # -- resources

    async def subscribe(self, ctx: sdk.Context) -> JsonObject:
        uri = parse_uri(ctx)
        if (await self._backend.wait_for_offers()).find_owner(uri) is None:
            raise build_not_found_error(ctx, uri)
        watched = self._subscribed_uris.setdefault(sdk.get_connection_outbound(ctx), set())
        if len(watched) >= MAX_SUBSCRIPTIONS:
            raise MCPError(
                INVALID_PARAMS, f"more than {MAX_SUBSCRIPTIONS} resources are subscribed to"
            )
        watched.add(uri)
        await self._update_servers()
        return {}

    async def unsubscribe(self, ctx: sdk.Context) -> JsonObject:
        self._subscribed_uris.get(sdk.get_connection_outbound(ctx), set()).discard(parse_uri(ctx))
        await self._update_servers()
        return {}

    @asynccontextmanager
    async def track_listen(self, ctx: sdk.Context) -> AsyncGenerator[None, None]:
        """While a `subscriptions/listen` is open, servers are told what it wants to hear of."""
        listener, uris = object(), _parse_listen_uris(ctx)
        if not uris:
            yield
            return
        self._subscribed_uris[listener] = set(uris)
        try:
            await self._update_servers()
            yield
        finally:
            del self._subscribed_uris[listener]
            with anyio.move_on_after(NOTIFY_TIMEOUT_SECONDS, shield=True):
                await self._update_servers()

    async def _update_servers(self) -> None:
        offered = await self._backend.wait_for_offers()
        wanted: dict[str, set[str]] = {server.name: set() for server in offered.servers}
        for uri in {uri for uris in self._subscribed_uris.values() for uri in uris}:
            owner = offered.find_owner(uri)
            if owner is not None:
                wanted[owner.name].add(uri)
        for server in offered.servers:
            await server.resources.watch(frozenset(wanted[server.name]))

    # -- log messages

    async def set_level(self, ctx: sdk.Context) -> JsonObject:
        level = (ctx.params or {}).get("level")
        if level not in LOG_LEVELS:
            raise MCPError(
                INVALID_PARAMS, f"logging/setLevel: expected one of {', '.join(LOG_LEVELS)}"
            )
        set_log_level(sdk.get_connection_state(ctx), cast(str, level))
        levels = [get_log_level(state) for state in self._states.values()]
        lowest = min(
            (each for each in levels if each), key=LOG_LEVELS.index, default=cast(str, level)
        )
        for server in (await self._backend.wait_for_offers()).servers:
            await server.resources.set_log_level(lowest)
        return {}

    # -- what servers say

    async def relay_notification(self, notice: ServerNotification) -> None:
        if notice.method == RESOURCE_UPDATED:
            await self._relay_update(notice)
        elif notice.upstream_request is not None:
            await notice.upstream_request.bridge.client.send_notification(
                notice.method, notice.params
            )
        else:
            await self._notify_all(notice)

    async def _relay_update(self, notice: ServerNotification) -> None:
        uri = notice.params.get("uri")
        if not isinstance(uri, str):
            return
        owner = (await self._backend.wait_for_offers()).find_owner(uri)
        if owner is None or owner.name != notice.server:
            return  # it speaks of what is another's
        await self._bus.publish(ResourceUpdated(uri=uri))
        hearing = [each for each, uris in self._subscribed_uris.items() if uri in uris]
        clients = [each for each in self._states if each in hearing]
        await notify_clients(clients, notice.method, notice.params)

    async def _notify_all(self, notice: ServerNotification) -> None:
        """What belongs to no request is for everybody who may hear it."""
        clients = [
            client
            for client, state in self._states.items()
            if notice.method != LOG_MESSAGE_METHOD
            or is_severe_enough(notice.params, get_log_level(state))
        ]
        await notify_clients(clients, notice.method, notice.params)


async def notify_clients(
    clients: Iterable[sdk.Outbound], method: str, params: JsonObject | None
) -> None:
    async def notify(client: sdk.Outbound) -> None:
        # One client that does not read must not keep the news from the others.
        with anyio.move_on_after(NOTIFY_TIMEOUT_SECONDS):
            await client.notify(method, params)

    async with anyio.create_task_group() as notices:
        for client in clients:
            notices.start_soon(notify, client)


def _parse_listen_uris(ctx: sdk.Context) -> list[str]:
    wanted = (ctx.params or {}).get("notifications")
    given = cast(JsonObject, wanted) if isinstance(wanted, dict) else {}
    uris = given.get("resourceSubscriptions")
    found = uris if isinstance(uris, list) else []
    return [uri for uri in found if isinstance(uri, str)][:MAX_SUBSCRIPTIONS]
