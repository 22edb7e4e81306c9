"""Keeps resources, prompts, subscriptions and the log level of one server up to date."""

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import anyio

from mcp_dispatch.concurrency.change_signal import ChangeSignal
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.upstream.connection import Connection
from mcp_dispatch.upstream.errors import ConnectionLost, UpstreamError
from mcp_dispatch.upstream.listener import UpstreamListener

logger = logging.getLogger(__name__)

_LIST_TIMEOUT: Final = 30.0
_REQUEST_TIMEOUT: Final = 10.0
_PAUSE_SECONDS: Final = 1.0
_MAX_PAUSE_SECONDS: Final = 30.0
_LISTEN_TIMEOUT: Final = 1e9


@dataclass(frozen=True, slots=True)
class ServerOffers:
    """List entries as the server sent them."""

    resources: tuple[JsonObject, ...] = ()
    templates: tuple[JsonObject, ...] = ()
    prompts: tuple[JsonObject, ...] = ()


class ServerResources:
    """Resources and prompts of one server; the last known ones stay while it is not connected.

    `watched_uris` and `log_level` are applied again after a restart. `loaded` is set once the
    lists have been read or cannot be read.
    """

    def __init__(self, server: str, listener: UpstreamListener) -> None:
        self._server = server
        self._listener = listener
        self._stale_kinds: set[str] = set()
        self._announced_kinds: set[str] = set()
        self._wakeup = anyio.Event()
        self._applied = ChangeSignal()
        self._is_running = False
        self.loaded = anyio.Event()
        self.offers = ServerOffers()
        self.capabilities: JsonObject = {}
        self.instructions = ""
        self.watched_uris: frozenset[str] = frozenset()
        self.log_level: str | None = None

    def mark_changed(self, kind: str) -> None:
        """Read a list again because the server has announced that it changed."""
        self._announced_kinds.add(kind)
        self.refresh(kind)

    def refresh(self, kind: str) -> None:
        self._stale_kinds.add(kind)
        self._wakeup.set()

    async def watch(self, uris: frozenset[str]) -> None:
        """Subscribe to exactly these resources; return once the server has been told, if connected."""
        if uris != self.watched_uris:
            self.watched_uris = uris
            await self._wait_until_applied()

    async def set_log_level(self, level: str) -> None:
        """Set the least severe level of log messages that the server sends."""
        if level != self.log_level:
            self.log_level = level
            await self._wait_until_applied()

    async def _wait_until_applied(self) -> None:
        self._wakeup.set()
        if self._is_running:
            with anyio.move_on_after(_REQUEST_TIMEOUT):
                await self._applied.wait()

    async def run(self, connection: Connection) -> None:
        """Keep everything current over one connection that is ready, until cancelled."""
        self.capabilities, self.instructions = connection.capabilities, connection.instructions
        self._stale_kinds |= {"resources", "prompts"}
        watching = _Subscriptions(connection, self._server)
        self._is_running = True
        try:
            async with anyio.create_task_group() as tasks:
                # Caught here because a task group would wrap it.
                with suppress(ConnectionLost):
                    await self._run_updates(connection, watching, tasks)
                tasks.cancel_scope.cancel()
        finally:
            self._is_running = False
            self.loaded.set()
            self._applied.notify()

    async def _run_updates(
        self, connection: Connection, subscriptions: "_Subscriptions", tasks: anyio.abc.TaskGroup
    ) -> None:
        while True:
            self._wakeup = anyio.Event()
            while self._stale_kinds:
                await self._refresh(connection, self._stale_kinds.pop())
            self.loaded.set()
            await subscriptions.apply(self.watched_uris, self.log_level, tasks)
            if not self._wakeup.is_set():
                self._applied.notify()
            await self._wakeup.wait()
            # A server may announce a change each time its list is read.
            await anyio.sleep(_PAUSE_SECONDS if self._stale_kinds else 0)

    async def _refresh(self, connection: Connection, kind: str) -> None:
        before, announced = self.offers, kind in self._announced_kinds
        self._announced_kinds.discard(kind)
        if kind == "prompts":
            prompts = await self._list_entries(connection, "prompts/list", "prompts", "prompts")
            self.offers = ServerOffers(before.resources, before.templates, prompts)
        else:
            resources = await self._list_entries(
                connection, "resources/list", "resources", "resources"
            )
            templates = await self._list_entries(
                connection, "resources/templates/list", "resourceTemplates", "resources"
            )
            self.offers = ServerOffers(resources, templates, before.prompts)
        # The server has announced a change, even though the list looks the same to us.
        if announced or repr(before) != repr(self.offers):
            self._listener.handle_offers_changed(kind)

    async def _list_entries(
        self, connection: Connection, method: str, key: str, capability: str
    ) -> tuple[JsonObject, ...]:
        if capability not in connection.capabilities:
            return ()
        try:
            listing = await connection.list_entries(method, key, _LIST_TIMEOUT)
        except ConnectionLost:
            raise
        except (TimeoutError, UpstreamError) as error:
            logger.warning("upstream %s: no %s: %s", self._server, key, str(error) or "no answer")
            return ()
        if listing.problem is not None:
            logger.warning("upstream %s %s", self._server, listing.problem)
        return listing.entries


class _Subscriptions:
    """The subscriptions and the log level that one connection has."""

    def __init__(self, connection: Connection, server: str) -> None:
        self._connection = connection
        self._server = server
        self._watched_uris: frozenset[str] = frozenset()
        self._log_level: str | None = None
        self._listen_scope: anyio.CancelScope | None = None
        self._renewals = connection.renewals

    async def apply(
        self, watched_uris: frozenset[str], log_level: str | None, tasks: anyio.abc.TaskGroup
    ) -> None:
        if self._connection.modern:
            if self._listen_scope is None or watched_uris != self._watched_uris:
                self._start_listening(watched_uris, tasks)
                with anyio.move_on_after(_REQUEST_TIMEOUT):
                    await self._connection.listen_acknowledged.wait()
        else:
            self._reset_if_renewed()
            await self._update_subscriptions(watched_uris)
            await self._set_log_level(log_level)
        self._watched_uris = watched_uris

    def _reset_if_renewed(self) -> None:
        """Forget what was applied if the session was replaced: the new one has no subscriptions."""
        if self._connection.renewals != self._renewals:
            self._renewals = self._connection.renewals
            self._watched_uris, self._log_level = frozenset(), None

    async def _update_subscriptions(self, watched_uris: frozenset[str]) -> None:
        for uri in sorted(watched_uris - self._watched_uris):
            await self._send_request("resources/subscribe", {"uri": uri})
        for uri in sorted(self._watched_uris - watched_uris):
            await self._send_request("resources/unsubscribe", {"uri": uri})

    async def _set_log_level(self, level: str | None) -> None:
        if (
            level is not None
            and level != self._log_level
            and "logging" in self._connection.capabilities
        ):
            await self._send_request("logging/setLevel", {"level": level})
            self._log_level = level

    async def _send_request(self, method: str, params: JsonObject) -> None:
        try:
            answer = await self._connection.request(method, params, timeout=_REQUEST_TIMEOUT)
        except ConnectionLost:
            raise
        except (TimeoutError, UpstreamError) as error:
            answer = ProtocolError(0, str(error) or "no answer")
        if isinstance(answer, ProtocolError):
            logger.warning("upstream %s: %s: %s", self._server, method, answer.message)

    def _start_listening(self, watched_uris: frozenset[str], tasks: anyio.abc.TaskGroup) -> None:
        if self._listen_scope is not None:
            self._listen_scope.cancel()
        scope = self._listen_scope = anyio.CancelScope()
        uris: list[Json] = [*sorted(watched_uris)]
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
                    wait = min(wait * 2, _MAX_PAUSE_SECONDS)
                    # Notifications of the meantime were missed.
                    self._connection.invalidate_lists()
            self._connection.listen_acknowledged.notify()  # none will come

        tasks.start_soon(listen)

    async def _listen_once(self, notifications: JsonObject) -> JsonObject | ProtocolError | None:
        """Listen until the server ends the stream; return None if the stream was cut off."""
        try:
            return await self._connection.request(
                "subscriptions/listen", {"notifications": notifications}, timeout=_LISTEN_TIMEOUT
            )
        except ConnectionLost:
            raise
        except UpstreamError:
            return None
