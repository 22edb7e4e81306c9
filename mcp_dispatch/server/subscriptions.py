"""Subscriptions of clients to resource updates and log messages, and the relay of both.

Each upstream is subscribed to the union of what its clients have subscribed to.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import anyio
from mcp_types import INVALID_PARAMS

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.server.backend import Backend, wait_for_offers
from mcp_dispatch.server.client import (
    LOG_LEVELS,
    LOG_MESSAGE_METHOD,
    get_log_level,
    is_severe_enough,
    set_log_level,
)
from mcp_dispatch.server.resources import build_not_found_error, parse_uri
from mcp_dispatch.upstream.listener import ServerNotification
from mcp_dispatch.upstream.requests.relay import RESOURCE_UPDATED
from mcp_dispatch.wire import sdk
from mcp_dispatch.wire.sdk import MCPError

MAX_SUBSCRIPTIONS: Final = 1_000
"""Resources that one client may subscribe to."""

NOTIFY_TIMEOUT_SECONDS: Final = 5.0


class Subscriptions:
    """The connected clients and their subscriptions.

    A client up to 2025-11-25 is kept from its handshake to the end of its connection, a later
    one while its `subscriptions/listen` is open.
    """

    def __init__(self, backend: Backend, bus: sdk.SubscriptionBus) -> None:
        self._backend = backend
        self._bus = bus
        self._states: dict[sdk.Outbound, dict[str, Any]] = {}
        self._subscribed_uris: dict[object, set[str]] = {}

    @property
    def clients(self) -> list[sdk.Outbound]:
        return list(self._states)

    def add_client(self, ctx: sdk.Context) -> None:
        """Notify this client until its connection ends."""
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
        if (await wait_for_offers(self._backend)).find_owner(uri) is None:
            raise build_not_found_error(ctx, uri)
        uris = self._subscribed_uris.setdefault(sdk.get_connection_outbound(ctx), set())
        if len(uris) >= MAX_SUBSCRIPTIONS:
            raise MCPError(
                INVALID_PARAMS, f"more than {MAX_SUBSCRIPTIONS} resources are subscribed to"
            )
        uris.add(uri)
        await self._update_servers()
        return {}

    async def unsubscribe(self, ctx: sdk.Context) -> JsonObject:
        self._subscribed_uris.get(sdk.get_connection_outbound(ctx), set()).discard(parse_uri(ctx))
        await self._update_servers()
        return {}

    @asynccontextmanager
    async def track_listen(self, ctx: sdk.Context) -> AsyncGenerator[None, None]:
        """Keep the resource subscriptions of a `subscriptions/listen` while it is open."""
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
        """Subscribe each upstream to the resources of its own that any client subscribes to."""
        aggregator = await wait_for_offers(self._backend)
        uris_by_server: dict[str, set[str]] = {server.name: set() for server in aggregator.servers}
        for uri in {uri for uris in self._subscribed_uris.values() for uri in uris}:
            owner = aggregator.find_owner(uri)
            if owner is not None:
                uris_by_server[owner.name].add(uri)
        for server in aggregator.servers:
            await server.resources.watch(frozenset(uris_by_server[server.name]))

    # -- log messages

    async def set_level(self, ctx: sdk.Context) -> JsonObject:
        """Set the level of this client, and the lowest level of all clients at the upstreams."""
        level = (ctx.params or {}).get("level")
        if level not in LOG_LEVELS:
            raise MCPError(
                INVALID_PARAMS, f"logging/setLevel: expected one of {', '.join(LOG_LEVELS)}"
            )
        level = cast(str, level)
        set_log_level(sdk.get_connection_state(ctx), level)
        levels = [get_log_level(state) for state in self._states.values()]
        lowest = min((each for each in levels if each), key=LOG_LEVELS.index, default=level)
        for server in (await wait_for_offers(self._backend)).servers:
            await server.resources.set_log_level(lowest)
        return {}

    # -- notifications of upstreams

    async def relay_notification(self, notification: ServerNotification) -> None:
        if notification.method == RESOURCE_UPDATED:
            await self._relay_update(notification)
        elif notification.upstream_request is not None:
            client = notification.upstream_request.bridge.client
            await client.send_notification(notification.method, notification.params)
        else:
            await self._notify_all(notification)

    async def _relay_update(self, notification: ServerNotification) -> None:
        uri = notification.params.get("uri")
        if not isinstance(uri, str):
            return
        owner = (await wait_for_offers(self._backend)).find_owner(uri)
        if owner is None or owner.name != notification.server:
            return  # an upstream must not announce updates of another upstream's resources
        await self._bus.publish(sdk.ResourceUpdated(uri=uri))
        subscribers = {each for each, uris in self._subscribed_uris.items() if uri in uris}
        clients = [client for client in self._states if client in subscribers]
        await notify_clients(clients, notification.method, notification.params)

    async def _notify_all(self, notification: ServerNotification) -> None:
        """Send a notification without a request to all clients; filter log messages by level."""
        clients = [
            client
            for client, state in self._states.items()
            if notification.method != LOG_MESSAGE_METHOD
            or is_severe_enough(notification.params, get_log_level(state))
        ]
        await notify_clients(clients, notification.method, notification.params)


async def notify_clients(
    clients: Iterable[sdk.Outbound], method: str, params: JsonObject | None
) -> None:
    """Notify the clients concurrently: one that does not read must not delay the others."""

    async def notify(client: sdk.Outbound) -> None:
        with anyio.move_on_after(NOTIFY_TIMEOUT_SECONDS):
            await client.notify(method, params)

    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(notify, client)


def _parse_listen_uris(ctx: sdk.Context) -> list[str]:
    notifications = (ctx.params or {}).get("notifications")
    filters = cast(JsonObject, notifications) if isinstance(notifications, dict) else {}
    uris = filters.get("resourceSubscriptions")
    entries = uris if isinstance(uris, list) else []
    return [uri for uri in entries if isinstance(uri, str)][:MAX_SUBSCRIPTIONS]
