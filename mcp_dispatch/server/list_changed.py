"""Clients up to 2025-11-25 whose list has grown: told so, and given the time to list again."""

from collections.abc import Awaitable, Callable

import anyio

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire import sdk

RELIST_TIMEOUT_SECONDS = 0.5
"""How long an answer is held for a client to list again."""

SETTLE_SECONDS = 0.05
"""How long the client then has to take the list in, before the answer has its model go on."""

_TRACKER_KEY = "mcp_dispatch/relisting"


class ListChangedTracker:
    """One client's way with its list: whether it follows a notice. One that did not within the
    time is taken for one that never does, and is not waited for again."""

    def __init__(self) -> None:
        self._follows_notices = True
        self._has_listed = False
        self._list_sent = anyio.Event()

    @property
    def is_current(self) -> bool:
        """Whether the client's list can be taken to be what we would answer now."""
        return self._has_listed and self._follows_notices

    def record_list(self) -> None:
        """The client is being given the list as it stands."""
        self._has_listed = True
        listed, self._list_sent = self._list_sent, anyio.Event()
        listed.set()

    async def notify_and_wait(self, notify: Callable[[], Awaitable[None]]) -> bool:
        """Tells the client that its list has changed; whether it has listed again since. One that
        never listed need not know."""
        if not self._has_listed:
            return False
        listed = self._list_sent
        with anyio.move_on_after(RELIST_TIMEOUT_SECONDS):
            await notify()
            if self._follows_notices:
                await listed.wait()
        self._follows_notices = self._follows_notices and listed.is_set()
        if self._follows_notices:
            await anyio.sleep(SETTLE_SECONDS)
        return self._follows_notices


def get_tracker(ctx: sdk.Context) -> ListChangedTracker:
    """Of the connection, which in the modern era is one request: lists do not grow there."""
    kept = sdk.get_connection_state(ctx)
    if _TRACKER_KEY not in kept:
        kept[_TRACKER_KEY] = ListChangedTracker()
    relisting = kept[_TRACKER_KEY]
    assert isinstance(relisting, ListChangedTracker)
    return relisting


async def notify_tools_changed(client: sdk.Outbound) -> None:
    await client.notify("notifications/tools/list_changed", None)


LIST_TTL_MS = 60_000


def build_list_result(ctx: sdk.Context, key: str, entries: list[Json]) -> JsonObject:
    listed: JsonObject = {key: entries}
    return (
        listed | {"ttlMs": LIST_TTL_MS, "cacheScope": "private"} if sdk.is_modern(ctx) else listed
    )
