"""Events of a running application, and how they reach the clients of an MCP server."""

from typing import Protocol

from mcp_dispatch.concurrency.change_signal import ChangeSignal
from mcp_dispatch.upstream.listener import ServerNotification


class AppListener:
    """Receives the events of an application. The methods of this class ignore them."""

    def on_tools_changed(self) -> None:
        """The `tools/list` entries may have changed."""

    def on_offers_changed(self, kind: str) -> None:
        """An upstream server changed its `resources` or `prompts`."""

    def on_definitions_changed(self, names: frozenset[str]) -> None:
        """The tools with these rule names changed their definitions."""

    def on_reloaded(self) -> None:
        """Changed settings were applied."""

    async def on_notification(self, notification: ServerNotification) -> None:
        """An upstream server sent a notification for clients."""


class NotifyingServer(Protocol):
    """An MCP server that sends notifications to its clients."""

    async def notify_list_changed(self, kind: str, /) -> None: ...

    async def relay_notification(self, notification: ServerNotification, /) -> None: ...


class ChangeAnnouncer(AppListener):
    """Announces changes to the clients of a server. Changes of one kind in quick succession make
    one notification; events before `run` are dropped, since no client is connected.
    """

    def __init__(self) -> None:
        self._server: NotifyingServer | None = None
        self._changes: set[str] = set()
        self._changed = ChangeSignal()

    def on_tools_changed(self) -> None:
        self.on_offers_changed("tools")

    def on_offers_changed(self, kind: str) -> None:
        if self._server is not None:
            self._changes.add(kind)
            self._changed.notify()

    async def on_notification(self, notification: ServerNotification) -> None:
        if self._server is not None:
            await self._server.relay_notification(notification)

    async def run(self, server: NotifyingServer) -> None:
        """Announce changes until cancelled."""
        self._server = server
        while True:
            while self._changes:
                await server.notify_list_changed(self._changes.pop())
            await self._changed.wait()
