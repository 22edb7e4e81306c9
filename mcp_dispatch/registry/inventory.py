"""All tools at a glance: where each comes from, whether it is listed, and what it costs."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from mcp_dispatch.model.tools import Sharing, Tool
from mcp_dispatch.registry.deferral import estimated_tokens
from mcp_dispatch.registry.listing import Offering
from mcp_dispatch.upstream.lifecycle import State
from mcp_dispatch.upstream.sanitize import one_line
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import Offer, UpstreamTool


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
    sharing: str
    """`shared`: beside others; `server`: alone among its server's; else alone."""

    tokens: int


@dataclass(frozen=True, slots=True)
class Source:
    """A server, or with the name None our own tools."""

    server: str | None
    state: str
    problem: str | None
    tools: tuple[ToolLine, ...]
    file: str | None = None
    log: str | None = None
    notes: tuple[str, ...] = ()
    """Tools that are held back, odd, or no longer what they were, in words."""

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
    offering: Offering,
    servers: Sequence[Supervisor],
    activated: Collection[str],
    offer_of: Callable[[Supervisor], Offer],
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
        line = ToolLine(
            *(tool.name, tool.rule_name, state, _sharing(tool)), estimated_tokens(tool.definition)
        )
        lines.setdefault(tool.server, []).append(line)
    theirs = (
        Source(
            *(each.name, each.state.value, each.problem or each.dossier.known.problem),
            tuple(lines.get(each.name, ())),
            file=str(each.config.file) if each.config.file else None,
            log=str(each.log),
            notes=tuple(_notes(each, offer_of(each))),
        )
        for each in servers
    )
    return Overview(
        (Source(None, State.READY.value, None, tuple(lines[None])), *theirs),
        sum(estimated_tokens(tool.definition) for tool in shelf.listed()),
        sum(estimated_tokens(tool.definition) for tool in shelf.visible),
    )


def _sharing(tool: Tool) -> str:
    """For a call without arguments; a built-in may decide by them."""
    if isinstance(tool, UpstreamTool) and tool.alone:
        return "server"
    try:
        return tool.sharing({}).value
    except (KeyError, TypeError, ValueError):
        return Sharing.EXCLUSIVE.value


def _notes(server: Supervisor, offer: Offer) -> Iterator[str]:
    for held in offer.held_back:
        yield f"{held.tool}: held back: {held.message}"
    for note in offer.notes:
        yield f"{note.tool}: {note.message}"
    for change in server.dossier.known.changes:
        day = datetime.fromtimestamp(change.at, UTC).strftime("%Y-%m-%d")
        yield f"{one_line(change.tool)}: changed on {day}: {'; '.join(map(one_line, change.what))}"
