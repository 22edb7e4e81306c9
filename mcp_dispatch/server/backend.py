"""What the face needs of the application."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.upstream.aggregator import Offered
from mcp_dispatch.wire import sdk

if TYPE_CHECKING:
    from mcp_dispatch.server.resources import LocalResources


OFFERS_SECONDS = 10.0


def nothing_offered() -> Offered:
    """Where there are no servers behind us."""
    return Offered(lambda: (), lambda _, name: name, lambda _: False)


@dataclass(frozen=True, slots=True)
class Backstage:
    """What the face needs of the application."""

    dispatcher: Dispatcher
    scope_of: Callable[[sdk.Context], Scope]
    """Whose state the request shares: the process's, its session's, or its principal's."""

    definitions: Callable[[Scope | None], Awaitable[list[JsonObject]]]
    """The `tools/list` entries as they stand now, with what this scope has activated, if any."""

    input_schema: Callable[[str], JsonObject | None]
    """Of the tool with this name, where it is known."""

    expect: Callable[[str], Awaitable[None]]
    """Waits, within a bound, while a server that may own this tool's name is still starting."""

    use_roots: Callable[[Sequence[Path]], None] | None
    """Takes the client's roots for the workspace; None where a flag has named it, and where there
    are several clients."""

    room: Callable[[], Awaitable[None]]
    """Waits while too many answers are unread."""

    ask_timeout: float

    offered: Offered = field(default_factory=nothing_offered)
    """What the servers behind us offer beside tools, as far as they have said so."""

    local_resources: "LocalResources | None" = None
    """What `resources/read` answers out of ourselves."""

    instructions: Callable[[], str] = lambda: ""
    """What else a client should know of the tools when it connects."""

    async def offers(self) -> Offered:
        """What servers offer, once they have had a while to say so."""
        await self.offered.known(OFFERS_SECONDS)
        return self.offered

    def provides(self, capability: str) -> bool:
        return self.offered.offers(capability)
