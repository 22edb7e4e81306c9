"""The events of upstream servers, and the object that receives them."""

from dataclasses import dataclass
from typing import Protocol

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.definition_diff import DefinitionChange
from mcp_dispatch.upstream.requests.request import UpstreamRequest


@dataclass(frozen=True, slots=True)
class ServerNotification:
    """A notification of a server, and the request it belongs to, if that is known."""

    server: str
    method: str
    params: JsonObject
    upstream_request: UpstreamRequest | None


class UpstreamListener(Protocol):
    """Receives the events of all servers. Methods that are not async must return at once."""

    def handle_tools_changed(self) -> None:
        """The tools of some server have changed."""
        ...

    def handle_definitions_changed(
        self, server: str, changes: tuple[DefinitionChange, ...]
    ) -> None:
        """Tools of `server` have other definitions than when they were first listed."""
        ...

    def handle_offers_changed(self, kind: str) -> None:
        """A server has announced or shown a change of its `tools`, `resources` or `prompts`."""
        ...

    async def handle_notification(self, notification: ServerNotification) -> None:
        """A server has sent a notification for clients."""
        ...

    def list_roots(self) -> list[JsonObject]:
        """Return the directories that servers may know of: `{"uri": …, "name": …}`."""
        ...


class NullListener(UpstreamListener):
    """Ignores every event and has no roots; a base for listeners that handle some events only."""

    def handle_tools_changed(self) -> None:
        return None

    def handle_definitions_changed(
        self, server: str, changes: tuple[DefinitionChange, ...]
    ) -> None:
        return None

    def handle_offers_changed(self, kind: str) -> None:
        return None

    async def handle_notification(self, notification: ServerNotification) -> None:
        return None

    def list_roots(self) -> list[JsonObject]:
        return []
