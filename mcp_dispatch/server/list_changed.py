"""Clients up to 2025-11-25 whose list has grown: told so, and given the time to list again."""

from collections.abc import Awaitable, Callable

import anyio

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire import sdk

RELIST_SECONDS = 0.5
"""How long an answer is held for a client to list again."""

SETTLE_SECONDS = 0.05
"""How long the client then has to take the list in, before the answer has its model go on."""

_KEY = "mcp_dispatch/relisting"


class Relisting:
    """One client's way with its list: whether it follows a notice. One that did not within the
    time is taken for one that never does, and is not waited for again."""

    def __init__(self) -> None:
        self._follows = True
        self._ever = False
        self._listed = anyio.Event()

    @property
    def follows(self) -> bool:
        """Whether the client's list can be taken to be what we would answer now."""
        return self._ever and self._follows

    def listed(self) -> None:
        """The client is being given the list as it stands."""
        self._ever = True
        listed, self._listed = self._listed, anyio.Event()
        listed.set()

    async def notice(self, notify: Callable[[], Awaitable[None]]) -> bool:
        """Tells the client that its list has changed; whether it has listed again since. One that
        never listed need not know."""
        if not self._ever:
            return False
        listed = self._listed
        with anyio.move_on_after(RELIST_SECONDS):
            await notify()
            if self._follows:
                await listed.wait()
        self._follows = self._follows and listed.is_set()
        if self._follows:
            await anyio.sleep(SETTLE_SECONDS)
        return self._follows


def relisting_of(ctx: sdk.Context) -> Relisting:
    """Of the connection, which in the modern era is one request: lists do not grow there."""
    kept = sdk.connection_state(ctx)
    if _KEY not in kept:
        kept[_KEY] = Relisting()
    relisting = kept[_KEY]
    assert isinstance(relisting, Relisting)
    return relisting


async def tell_tools_changed(client: sdk.Outbound) -> None:
    await client.notify("notifications/tools/list_changed", None)


LIST_TTL_MS = 60_000


def listing(ctx: sdk.Context, key: str, entries: list[Json]) -> JsonObject:
    listed: JsonObject = {key: entries}
    return (
        listed | {"ttlMs": LIST_TTL_MS, "cacheScope": "private"} if sdk.is_modern(ctx) else listed
    )
