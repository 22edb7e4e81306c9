"""The interface of the application that the MCP server calls."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.upstream.aggregator import ResourceAggregator

OFFERS_TIMEOUT_SECONDS: Final = 10.0


class Backend(Protocol):
    """The application behind an MCP server. `App` implements it."""

    @property
    def dispatcher(self) -> Dispatcher: ...

    @property
    def results(self) -> ResultStore: ...

    @property
    def resource_aggregator(self) -> ResourceAggregator:
        """The resources, prompts and completions of the upstream servers."""
        ...

    @property
    def ask_timeout(self) -> float:
        """Seconds that a person has to answer a question."""
        ...

    async def list_definitions(self, scope: Scope | None = None) -> list[JsonObject]:
        """Return the current `tools/list` entries, with the tools that `scope` has activated."""
        ...

    def find_input_schema(self, name: str) -> JsonObject | None:
        """Return the input schema of the tool with this name, or None if it is unknown."""
        ...

    async def wait_for_tool(self, name: str) -> None:
        """Wait, within a bound, while an upstream that may own this tool name is starting."""
        ...

    def build_instructions(self) -> str:
        """Return what a client is told about the tools when it connects, beside our own text."""
        ...

    def use_roots(self, roots: Sequence[Path]) -> None:
        """Choose the workspace from the roots of the client."""
        ...


async def wait_for_offers(backend: Backend) -> ResourceAggregator:
    """Return the aggregator once the upstreams have listed what they offer, within a bound."""
    await backend.resource_aggregator.wait_until_loaded(OFFERS_TIMEOUT_SECONDS)
    return backend.resource_aggregator
