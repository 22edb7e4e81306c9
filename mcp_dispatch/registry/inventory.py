"""All tools at a glance: where each comes from, whether it is listed, and what it costs."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from mcp_dispatch.model.tools import Sharing, Tool
from mcp_dispatch.registry.deferral import estimate_tokens
from mcp_dispatch.registry.listing import ToolListing
from mcp_dispatch.upstream.lifecycle import ServerState
from mcp_dispatch.upstream.sanitize import to_one_line
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import ServerTools, UpstreamTool


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
class ToolSummary:
    name: str
    rule_name: str
    state: ToolState
    sharing: str
    """`shared`: beside others; `server`: alone among its server's; else alone."""

    tokens: int


@dataclass(frozen=True, slots=True)
class ToolSource:
    """A server, or with the name None our own tools."""

    server: str | None
    state: str
    problem: str | None
    tools: tuple[ToolSummary, ...]
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
class ToolInventory:
    """`listed` are the tokens of the list as a new client gets it, `everything` those it would
    take without deferring."""

    sources: tuple[ToolSource, ...]
    listed_tokens: int
    total_tokens: int

    @property
    def saved_share(self) -> float:
        return 1 - self.listed_tokens / self.total_tokens if self.total_tokens else 0.0


def build_inventory(
    listing: ToolListing,
    servers: Sequence[Supervisor],
    activated: Collection[str],
    find_server_tools: Callable[[Supervisor], ServerTools],
) -> ToolInventory:
    """`activated` are the rule names that clients have found."""
    shelf = listing.tool_list
    shelf.decide()

    down = {server.name for server in servers if server.state is ServerState.DOWN}

    def find_state(tool: Tool) -> ToolState:
        if tool.server in down:
            return ToolState.DOWN
        if not shelf.is_deferred(tool):
            return ToolState.LOADED
        return ToolState.ACTIVATED if tool.rule_name in activated else ToolState.DEFERRED

    states = (
        *((tool, find_state(tool)) for tool in shelf.visible),
        *((tool, ToolState.HIDDEN) for tool in listing.hidden_tools),
        *((tool, ToolState.SHADOWED) for tool in listing.shadowed_tools),
    )
    lines: dict[str | None, list[ToolSummary]] = {None: []}
    for tool, state in states:
        line = ToolSummary(
            *(tool.name, tool.rule_name, state, _describe_sharing(tool)),
            estimate_tokens(tool.definition),
        )
        lines.setdefault(tool.server, []).append(line)
    theirs = (
        ToolSource(
            *(each.name, each.state.value, each.problem or each.cached.snapshot.problem),
            tuple(lines.get(each.name, ())),
            file=str(each.config.file) if each.config.file else None,
            log=str(each.log),
            notes=tuple(_collect_notes(each, find_server_tools(each))),
        )
        for each in servers
    )
    return ToolInventory(
        (ToolSource(None, ServerState.READY.value, None, tuple(lines[None])), *theirs),
        sum(estimate_tokens(tool.definition) for tool in shelf.list_tools()),
        sum(estimate_tokens(tool.definition) for tool in shelf.visible),
    )


def _describe_sharing(tool: Tool) -> str:
    """For a call without arguments; a built-in may decide by them."""
    if isinstance(tool, UpstreamTool) and tool.exclusive_on_server:
        return "server"
    try:
        return tool.decide_sharing({}).value
    except (KeyError, TypeError, ValueError):
        return Sharing.EXCLUSIVE.value


def _collect_notes(server: Supervisor, tools: ServerTools) -> Iterator[str]:
    for held in tools.rejected:
        yield f"{held.tool}: held back: {held.message}"
    for note in tools.warnings:
        yield f"{note.tool}: {note.message}"
    for change in server.cached.snapshot.changes:
        day = datetime.fromtimestamp(change.at, UTC).strftime("%Y-%m-%d")
        yield f"{to_one_line(change.tool)}: changed on {day}: {'; '.join(map(to_one_line, change.what))}"
