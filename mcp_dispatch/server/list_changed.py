"""List results and change notifications for clients that keep a copy of the tool list."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire import sdk

LIST_TTL_MS: Final = 60_000
RELIST_TIMEOUT_SECONDS: Final = 0.5
"""How long a response is held back for the client to fetch the list again."""

SETTLE_SECONDS: Final = 0.05
"""How long the client then has to process the list before its model reads the response."""

_TRACKER_KEY: Final = "mcp_dispatch/relisting"


class ListChangedTracker:
    """Records whether one client up to 2025-11-25 fetches its tool list again when notified.

    A client that did not do so in time is assumed to never do it, and is not waited for again.
    """

    def __init__(self) -> None:
        self._follows_notices = True
        self._has_listed = False
        self._list_sent = anyio.Event()

    @property
    def is_current(self) -> bool:
        """Whether the client is assumed to have the current list."""
        return self._has_listed and self._follows_notices

    def record_list(self) -> None:
        """Record that the current list is sent to the client."""
        self._has_listed = True
        self._list_sent.set()
        self._list_sent = anyio.Event()

    async def notify_and_wait(self, notify: Callable[[], Awaitable[None]]) -> bool:
        """Notify the client that its list has changed; return whether it has fetched it since.

        A client that never listed is not notified.
        """
        if not self._has_listed:
            return False
        list_sent = self._list_sent
        with anyio.move_on_after(RELIST_TIMEOUT_SECONDS):
            await notify()
            if self._follows_notices:
                await list_sent.wait()
        self._follows_notices = self._follows_notices and list_sent.is_set()
        if self._follows_notices:
            await anyio.sleep(SETTLE_SECONDS)
        return self._follows_notices


def get_tracker(ctx: sdk.Context) -> ListChangedTracker:
    """Return the tracker of the connection.

    In the modern era a connection is one request, and lists do not change because of a call.
    """
    state = sdk.get_connection_state(ctx)
    tracker = state.setdefault(_TRACKER_KEY, ListChangedTracker())
    assert isinstance(tracker, ListChangedTracker)
    return tracker


async def notify_tools_changed(client: sdk.Outbound) -> None:
    await client.notify("notifications/tools/list_changed", None)


def build_list_result(ctx: sdk.Context, key: str, entries: list[Json]) -> JsonObject:
    """Return the result of a list method; 2026-07-28 adds how long it may be cached."""
    result: JsonObject = {key: entries}
    if sdk.is_modern(ctx):
        result |= {"ttlMs": LIST_TTL_MS, "cacheScope": "private"}
    return result
