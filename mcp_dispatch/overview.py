"""All tools at a glance: where each comes from, whether it is listed, and what it costs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from mcp_dispatch.model.tools import Tool
from mcp_dispatch.offering import Offering
from mcp_dispatch.pool.tokens import estimated_tokens
from mcp_dispatch.upstream.supervisor import State, Supervisor


class ToolState(Enum):
    LOADED = "loaded"
    DEFERRED = "deferred"
    ACTIVATED = "activated"
    """Deferred, and found by a client of a server that runs now."""

    SHADOWED = "shadowed"
    """Another tool has its name; it can be called by its rule name."""

    HIDDEN = "hidden"
    """A deny rule takes it away."""

    DOWN = "down"
    """Its server cannot be reached."""


@dataclass(frozen=True, slots=True)
class ToolLine:
    name: str
    rule_name: str
    state: ToolState
    tokens: int


@dataclass(frozen=True, slots=True)
class Source:
    """A server, or with the name None our own tools."""

    server: str | None
    state: str
    problem: str | None
    tools: tuple[ToolLine, ...]

    @property
    def tokens(self) -> int:
        """Of all its definitions, listed or not."""
        return sum(tool.tokens for tool in self.tools)

    def count(self, *states: ToolState) -> int:
        return sum(tool.state in states for tool in self.tools)


@dataclass(frozen=True, slots=True)
class Overview:
    """`listed` are the tokens of the list as a new client gets it, `everything` those it would
    take without deferring."""

    sources: tuple[Source, ...]
    listed: int
    everything: int

    @property
    def saved(self) -> float:
        return 1 - self.listed / self.everything if self.everything else 0.0


def overview(
    offering: Offering, servers: Sequence[Supervisor], activated: Collection[str]
) -> Overview:
    """`activated` are the rule names that clients have found."""
    shelf = offering.shelf
    shelf.decide()

    down = {server.name for server in servers if server.state is State.DOWN}

    def waiting(tool: Tool) -> ToolState:
        if tool.server in down:
            return ToolState.DOWN
        if not shelf.is_deferred(tool):
            return ToolState.LOADED
        return ToolState.ACTIVATED if tool.rule_name in activated else ToolState.DEFERRED

    states = (
        *((tool, waiting(tool)) for tool in shelf.visible),
        *((tool, ToolState.HIDDEN) for tool in offering.hidden),
        *((tool, ToolState.SHADOWED) for tool in offering.shadowed),
    )
    lines: dict[str | None, list[ToolLine]] = {None: []}
    for tool, state in states:
        line = ToolLine(tool.name, tool.rule_name, state, estimated_tokens(tool.definition))
        lines.setdefault(tool.server, []).append(line)
    theirs = (
        Source(each.name, each.state.value, each.problem, tuple(lines.get(each.name, ())))
        for each in servers
    )
    return Overview(
        (Source(None, State.READY.value, None, tuple(lines[None])), *theirs),
        sum(estimated_tokens(tool.definition) for tool in shelf.listed()),
        sum(estimated_tokens(tool.definition) for tool in shelf.visible),
    )
