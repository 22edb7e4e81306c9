"""An inventory of all tools: their servers, states and token costs."""

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
    """Deferred, and found by a client of a running server process."""

    SHADOWED = "shadowed"
    """Another tool has the same name; this one can be called by its rule name."""

    HIDDEN = "hidden"
    """A deny rule hides the tool."""

    DOWN = "down"
    """Its server cannot be reached."""


@dataclass(frozen=True, slots=True)
class ToolSummary:
    name: str
    rule_name: str
    state: ToolState
    sharing: str
    """`shared`: runs beside other calls; `server`: alone among the calls of its server;
    `exclusive`: alone."""

    tokens: int


@dataclass(frozen=True, slots=True)
class ToolSource:
    """The tools of one server, or the built-in tools if `server` is None."""

    server: str | None
    state: str
    problem: str | None
    tools: tuple[ToolSummary, ...]
    file: str | None = None
    log: str | None = None
    notes: tuple[str, ...] = ()
    """Messages about rejected, unusual and changed tools."""

    @property
    def tokens(self) -> int:
        """The tokens of all definitions, listed or not."""
        return sum(tool.tokens for tool in self.tools)

    def count(self, *states: ToolState) -> int:
        return sum(tool.state in states for tool in self.tools)


@dataclass(frozen=True, slots=True)
class ToolInventory:
    """`listed_tokens` is the size of the tool list of a new client, `total_tokens` its size without
    deferral."""

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
    """`activated` are the rule names of the tools that clients have found."""
    tool_list = listing.tool_list
    tool_list.decide()

    down = {server.name for server in servers if server.state is ServerState.DOWN}

    def find_state(tool: Tool) -> ToolState:
        if tool.server in down:
            return ToolState.DOWN
        if not tool_list.is_deferred(tool):
            return ToolState.LOADED
        return ToolState.ACTIVATED if tool.rule_name in activated else ToolState.DEFERRED

    states = (
        *((tool, find_state(tool)) for tool in tool_list.visible),
        *((tool, ToolState.HIDDEN) for tool in listing.hidden_tools),
        *((tool, ToolState.SHADOWED) for tool in listing.shadowed_tools),
    )
    summaries: dict[str | None, list[ToolSummary]] = {None: []}
    for tool, state in states:
        summary = ToolSummary(
            name=tool.name,
            rule_name=tool.rule_name,
            state=state,
            sharing=_describe_sharing(tool),
            tokens=estimate_tokens(tool.definition),
        )
        summaries.setdefault(tool.server, []).append(summary)
    sources = (
        ToolSource(
            server=server.name,
            state=server.state.value,
            problem=server.problem or server.cached.snapshot.problem,
            tools=tuple(summaries.get(server.name, ())),
            file=str(server.config.file) if server.config.file else None,
            log=str(server.log),
            notes=tuple(_collect_notes(server, find_server_tools(server))),
        )
        for server in servers
    )
    return ToolInventory(
        (ToolSource(None, ServerState.READY.value, None, tuple(summaries[None])), *sources),
        sum(estimate_tokens(tool.definition) for tool in tool_list.list_tools()),
        sum(estimate_tokens(tool.definition) for tool in tool_list.visible),
    )


def _describe_sharing(tool: Tool) -> str:
    """Describe the sharing of a call without arguments; a built-in tool may decide by its
    arguments."""
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
