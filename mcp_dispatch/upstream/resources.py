"""What a server offers beside tools, kept up to date; and what we have it watch and say for clients."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import anyio

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.upstream.connection import Connection
from mcp_dispatch.upstream.errors import ConnectionLost, UpstreamError

logger = logging.getLogger(__name__)

_LIST_SECONDS: Final = 30.0
_ASK_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_LONGEST_LISTENING: Final = 1e9


@dataclass(frozen=True, slots=True)
class Offers:
    """Entries as the server listed them."""

    resources: tuple[JsonObject, ...] = ()
    templates: tuple[JsonObject, ...] = ()
    prompts: tuple[JsonObject, ...] = ()


class Shelf:
    """Of one server. The last known offers stay while it is away.

    `watched` and `level` hold over restarts. `known` is set once the offers have been read, or
    cannot be.
    """

    def __init__(self, server: str, on_change: Callable[[str], None]) -> None:
        self._server = server
        self._on_change = on_change
        self._stale: set[str] = set()
        self._announced: set[str] = set()
        self._stirred = anyio.Event()
        self._told = anyio.Event()
        self._kept = False
        self.known = anyio.Event()
        self.offers = Offers()
        self.capabilities: JsonObject = {}
        self.instructions = ""
        self.watched: frozenset[str] = frozenset()
        self.level: str | None = None

    def changed(self, what: str) -> None:
        """The server says that its `resources` or `prompts` are others now."""
        self._announced.add(what)
        self.refresh(what)

    def refresh(self, what: str) -> None:
        self._stale.add(what)
        self._stirred.set()

    async def watch(self, uris: frozenset[str]) -> None:
        """Of which resources we want to hear. Returns once the server has been told, if it can be."""
        if uris != self.watched:
            self.watched = uris
            await self._followed()

    async def hear_from(self, level: str) -> None:
        """Log messages less severe than this need not be sent."""
        if level != self.level:
            self.level = level
            await self._followed()

    async def _followed(self) -> None:
        self._stirred.set()
        told = self._told
        if self._kept:
            with anyio.move_on_after(_ASK_SECONDS):
                await told.wait()

    async def keep(self, connection: Connection) -> None:
        """For one connection, once it is ready, until cancelled."""
        self.capabilities, self.instructions = connection.capabilities, connection.instructions
        self._stale |= {"resources", "prompts"}
        watching = _Watching(connection, self._server)
        self._kept = True
        try:
            async with anyio.create_task_group() as tasks:
                # Caught within, as a task group would wrap it.
                with suppress(ConnectionLost):
                    await self._keep_on(connection, watching, tasks)
                tasks.cancel_scope.cancel()
        finally:
            self._kept = False
            self.known.set()
            self._all_told()

    async def _keep_on(
        self, connection: Connection, watching: "_Watching", tasks: anyio.abc.TaskGroup
    ) -> None:
        while True:
            self._stirred = anyio.Event()
            while self._stale:
                await self._refresh(connection, self._stale.pop())
            self.known.set()
            await watching.follow(self.watched, self.level, tasks)
            if not self._stirred.is_set():
                self._all_told()
            await self._stirred.wait()
            # A server may announce a change whenever it is asked for its list.
            await anyio.sleep(_PAUSE_SECONDS if self._stale else 0)

    def _all_told(self) -> None:
        told, self._told = self._told, anyio.Event()
        told.set()

    async def _refresh(self, connection: Connection, what: str) -> None:
        before, announced = self.offers, what in self._announced
        self._announced.discard(what)
        if what == "prompts":
            prompts = await self._list(connection, "prompts/list", "prompts", "prompts")
            self.offers = Offers(before.resources, before.templates, prompts)
        else:
            resources = await self._list(connection, "resources/list", "resources", "resources")
            templates = await self._list(
                connection, "resources/templates/list", "resourceTemplates", "resources"
            )
            self.offers = Offers(resources, templates, before.prompts)
        # Where the server says so, it is so, though its list may look the same to us.
        if announced or repr(before) != repr(self.offers):
            self._on_change(what)

    async def _list(
        self, connection: Connection, method: str, key: str, capability: str
    ) -> tuple[JsonObject, ...]:
        if capability not in connection.capabilities:
            return ()
        try:
            listing = await connection.list_all(method, key, _LIST_SECONDS)
        except ConnectionLost:
            raise
        except (TimeoutError, UpstreamError) as error:
            logger.warning("upstream %s: no %s: %s", self._server, key, str(error) or "no answer")
            return ()
        if listing.problem is not None:
            logger.warning("upstream %s %s", self._server, listing.problem)
        return listing.tools


class _Watching:
    """What one connection has been told to watch and to say."""

    def __init__(self, connection: Connection, server: str) -> None:
        self._connection = connection
        self._server = server
        self._watched: frozenset[str] = frozenset()
        self._level: str | None = None
        self._listening: anyio.CancelScope | None = None
        self._acknowledged = anyio.Event()
        self._renewals = connection.renewals
        connection.on_acknowledged = lambda: self._acknowledged.set()

    async def follow(
        self, watched: frozenset[str], level: str | None, tasks: anyio.abc.TaskGroup
    ) -> None:
        if self._connection.modern:
            if self._listening is None or watched != self._watched:
                self._listen(watched, tasks)
                with anyio.move_on_after(_ASK_SECONDS):
                    await self._acknowledged.wait()
        else:
            self._forget_if_renewed()
            await self._subscribe(watched)
            await self._set_level(level)
        self._watched = watched

    def _forget_if_renewed(self) -> None:
        """A new session knows nothing of what an old one was told."""
        if self._connection.renewals != self._renewals:
            self._renewals = self._connection.renewals
            self._watched, self._level = frozenset(), None

    async def _subscribe(self, watched: frozenset[str]) -> None:
        for uri in sorted(watched - self._watched):
            await self._tell("resources/subscribe", {"uri": uri})
        for uri in sorted(self._watched - watched):
            await self._tell("resources/unsubscribe", {"uri": uri})

    async def _set_level(self, level: str | None) -> None:
        if (
            level is not None
            and level != self._level
            and "logging" in self._connection.capabilities
        ):
            await self._tell("logging/setLevel", {"level": level})
            self._level = level

    async def _tell(self, method: str, params: JsonObject) -> None:
        try:
            answer = await self._connection.request(method, params, timeout=_ASK_SECONDS)
        except ConnectionLost:
            raise
        except (TimeoutError, UpstreamError) as error:
            answer = ProtocolError(0, str(error) or "no answer")
        if isinstance(answer, ProtocolError):
            logger.warning("upstream %s: %s: %s", self._server, method, answer.message)

    def _listen(self, watched: frozenset[str], tasks: anyio.abc.TaskGroup) -> None:
        if self._listening is not None:
            self._listening.cancel()
        scope = self._listening = anyio.CancelScope()
        self._acknowledged = anyio.Event()
        uris: list[Json] = [*sorted(watched)]
        wanted: JsonObject = {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourcesListChanged": True,
            **({"resourceSubscriptions": uris} if uris else {}),
        }

        async def listen() -> None:
            with scope, suppress(ConnectionLost):
                wait = _PAUSE_SECONDS
                while not isinstance(await self._listen_once(wanted), ProtocolError):
                    await anyio.sleep(wait)
                    wait = min(wait * 2, _LONGEST_PAUSE)
                    # Whatever it would have told meanwhile went by.
                    self._connection.suspect_lists()
            self._acknowledged.set()  # it has nothing to tell

        tasks.start_soon(listen)

    async def _listen_once(self, wanted: JsonObject) -> JsonObject | ProtocolError | None:
        """Until the server ends it; None where the stream was cut off."""
        try:
            return await self._connection.request(
                "subscriptions/listen", {"notifications": wanted}, timeout=_LONGEST_LISTENING
            )
        except ConnectionLost:
            raise
        except UpstreamError:
            return None
