"""What the face needs of the application."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.upstream.aggregator import ResourceAggregator
from mcp_dispatch.wire import sdk

if TYPE_CHECKING:
    from mcp_dispatch.server.resources import LocalResources


OFFERS_TIMEOUT_SECONDS = 10.0


def create_empty_aggregator() -> ResourceAggregator:
    """Where there are no servers behind us."""
    return ResourceAggregator(lambda: (), lambda _, name: name, lambda _: False)


@dataclass(frozen=True, slots=True)
class Backend:
    """What the face needs of the application."""

    dispatcher: Dispatcher
    find_scope: Callable[[sdk.Context], Scope]
    """Whose state the request shares: the process's, its session's, or its principal's."""

    list_definitions: Callable[[Scope | None], Awaitable[list[JsonObject]]]
    """The `tools/list` entries as they stand now, with what this scope has activated, if any."""

    find_input_schema: Callable[[str], JsonObject | None]
    """Of the tool with this name, where it is known."""

    wait_for_tool: Callable[[str], Awaitable[None]]
    """Waits, within a bound, while a server that may own this tool's name is still starting."""

    use_roots: Callable[[Sequence[Path]], None] | None
    """Takes the client's roots for the workspace; None where a flag has named it, and where there
    are several clients."""

    wait_for_capacity: Callable[[], Awaitable[None]]
    """Waits while too many answers are unread."""

    ask_timeout: float

    aggregator: ResourceAggregator = field(default_factory=create_empty_aggregator)
    """What the servers behind us offer beside tools, as far as they have said so."""

    local_resources: "LocalResources | None" = None
    """What `resources/read` answers out of ourselves."""

    build_instructions: Callable[[], str] = lambda: ""
    """What else a client should know of the tools when it connects."""

    async def wait_for_offers(self) -> ResourceAggregator:
        """What servers offer, once they have had a while to say so."""
        await self.aggregator.wait_until_loaded(OFFERS_TIMEOUT_SECONDS)
        return self.aggregator

    def supports(self, capability: str) -> bool:
        return self.aggregator.supports(capability)
