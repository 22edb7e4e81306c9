"""The tool list of clients, and the search for the deferred tools."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from anyio import to_thread

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import TOOL_SEARCH
from mcp_dispatch.model.tool_search import ToolSearchResult, UnavailableServer
from mcp_dispatch.model.tools import Tool
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.registry.announcement import Announcement, group_names_by_server, render_names
from mcp_dispatch.registry.deferral import Deferral, DeferralSettings
from mcp_dispatch.registry.registry import ToolRegistry
from mcp_dispatch.search.document import IndexedTool, ToolHit, build_entry
from mcp_dispatch.search.index import ToolIndex
from mcp_dispatch.search.query import parse_query
from mcp_dispatch.search.suggestions import explain_missing_tools
from mcp_dispatch.tools.call_tool import CallTool
from mcp_dispatch.tools.tool_search import ToolSearch
from mcp_dispatch.upstream.lifecycle import ServerState
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.upstreams import Upstreams

MAX_RESULTS = 50
_HASH_SUFFIX_CHARS = len("_12345678")


class ToolList:
    """An immutable list of the visible tools, with its search index. `visible` are the tools that
    no rule hides, in the order of the list. A change creates a new list, so that a search finds no
    removed tools."""

    def __init__(
        self,
        visible: Sequence[Tool],
        deferral: Deferral,
        instructions: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.visible = tuple(visible)
        self._deferral = deferral
        self._instructions = instructions
        # Without `tool_search`, deferred tools could not be found.
        self._searchable = any(t.server is None and t.name == TOOL_SEARCH for t in visible)

    def decide(self) -> None:
        """Decide which tools are deferred, if that is not decided yet."""
        self._deferral.decide(self.visible)

    def is_deferred(self, tool: Tool) -> bool:
        return self._searchable and self._deferral.is_deferred(tool)

    @property
    def deferred(self) -> list[Tool]:
        return [tool for tool in self.visible if self.is_deferred(tool)]

    def list_tools(self, activated: Collection[str] = ()) -> list[Tool]:
        """Return the loaded tools, then the activated ones in the order of their activation: a tool
        that was listed before keeps its place."""
        loaded = [tool for tool in self.visible if not self.is_deferred(tool)]
        waiting = {tool.rule_name: tool for tool in self.deferred} if activated else {}
        return [*loaded, *(waiting[name] for name in activated if name in waiting)]

    # -- the search

    @property
    def upstream_tools(self) -> list[Tool]:
        """The tools that the search can find."""
        return [tool for tool in self.visible if tool.server is not None]

    def has_all_names(self, query: str) -> bool:
        """Whether the query names exact tools and all of them are known."""
        asked = parse_query(query).names
        names = {name for tool in self.upstream_tools for name in (tool.name, tool.rule_name)}
        return bool(asked) and names.issuperset(asked)

    def search(self, query: str, limit: int) -> list[tuple[Tool, ToolHit]]:
        """Search the tools. The first search builds the index: call it in a worker thread."""
        index, tools = self._index
        wanted = MAX_RESULTS if parse_query(query).names else min(limit, MAX_RESULTS)
        return [(tools[id(hit.entry)], hit) for hit in index.search(query, wanted)]

    def build_remarks(self, query: str, *, found: bool) -> tuple[str, ...]:
        return explain_missing_tools(self._index[0], query, has_hits=found)

    @cached_property
    def _index(self) -> tuple[ToolIndex, dict[int, Tool]]:
        entries = [(self._build_entry(tool), tool) for tool in self.upstream_tools]
        index = ToolIndex([entry for entry, _ in entries])
        return index, {id(entry): tool for entry, tool in entries}

    def _build_entry(self, tool: Tool) -> IndexedTool:
        server = tool.server or ""
        definition: JsonObject = {**tool.definition, "name": _choose_search_name(tool, server)}
        entry = build_entry(server, definition, self._instructions.get(server, ""))
        return replace(entry, aliases=(tool.name, tool.rule_name))


def _choose_search_name(tool: Tool, server: str) -> str:
    """Return the name for the search index: the exposed name, or the server's own name if the
    exposed one was shortened."""
    own = tool.rule_name.removeprefix(f"mcp__{server}__")
    exposed = tool.name.removeprefix("mcp__").removeprefix(f"{server}__")
    kept = exposed[:-_HASH_SUFFIX_CHARS]
    return own if len(kept) > _HASH_SUFFIX_CHARS and own.startswith(kept) else exposed


SEARCH_TIMEOUT_SECONDS = 5.0
"""How long a search waits for servers whose tools are not known yet."""

_MORE_TOOLS = "Tools of these servers that are not in your list are found with tool_search:"


@dataclass(frozen=True, slots=True)
class RankedTool:
    """A tool that was found, whether it is deferred, and the match."""

    tool: Tool
    deferred: bool
    hit: ToolHit


@dataclass(frozen=True, slots=True)
class ToolRanking:
    """The result of a query over `total` tools."""

    query: str
    ranked: tuple[RankedTool, ...]
    total: int
    remarks: tuple[str, ...]
    connecting: tuple[str, ...]
    unavailable: tuple[UnavailableServer, ...]


class ToolListing:
    """The tool list of a process. `update` replaces its tools."""

    def __init__(self, settings: DeferralSettings, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._deferral = Deferral(settings, self._find_always_load)
        self._announcement = Announcement()
        self._search_tools: list[Tool] = [
            CallTool(),
            ToolSearch(self.find, self._render_announcement),
        ]
        self._tool_list = ToolList((), self._deferral)
        self.hidden_tools: list[Tool] = []
        """The tools that a deny rule hides."""

        self.shadowed_tools: list[Tool] = []
        """The tools whose names other tools have."""

    @property
    def built_ins(self) -> list[Tool]:
        """`tool_search` and `call_tool`: offered only if upstreams are configured."""
        return (
            list(self._search_tools) if self._deferral.enabled and self._upstreams.servers else []
        )

    def update(self, registry: ToolRegistry, policy: Policy) -> None:
        """Replace the tools. A tool that a rule without a pattern denies is neither listed nor
        found."""
        visible: list[Tool] = []
        self.hidden_tools = []
        for tool in registry.listed:
            denied = policy.find_tool_deny(tool.rule_name, tool.name, tool.server)
            (visible if denied is None else self.hidden_tools).append(tool)
        self.shadowed_tools = [shadowed.tool for shadowed in registry.shadowed]
        self._tool_list = ToolList(
            visible,
            self._deferral,
            {server.name: server.resources.instructions for server in self._upstreams.servers},
        )

    @property
    def tool_list(self) -> ToolList:
        return self._tool_list

    def is_deferred(self, tool: Tool) -> bool:
        return self._tool_list.is_deferred(tool)

    def list_definitions(self, activated_tools: Sequence[str] = ()) -> list[JsonObject]:
        """Return the `tools/list` entries for a client that has found the tools with these rule
        names."""
        self._tool_list.decide()
        return [tool.definition for tool in self._tool_list.list_tools(activated_tools)]

    def build_instructions(self) -> str:
        """Return the server instructions: the names of servers and of their known tools. Waits for
        no server."""
        if not self.built_ins:
            return ""
        unknown = [server.name for server in self._upstreams.servers if _is_unknown(server)]
        if not unknown:
            self._tool_list.decide()
        known = group_names_by_server(self._tool_list.deferred)
        names = render_names({**dict.fromkeys(unknown, ()), **known})
        return f"{_MORE_TOOLS}\n{names}" if names else ""

    # -- the search

    async def find(self, query: str, limit: int) -> ToolSearchResult:
        """Search for the `tool_search` tool."""
        found = await self.search(query, limit)
        return ToolSearchResult(
            tuple(ranked.tool for ranked in found.ranked),
            found.total,
            frozenset(ranked.tool.rule_name for ranked in found.ranked if ranked.deferred),
            found.remarks,
            found.connecting,
            found.unavailable,
        )

    async def search(self, query: str, limit: int) -> ToolRanking:
        if not self._tool_list.has_all_names(query):
            await self._upstreams.wait_until_settled(SEARCH_TIMEOUT_SECONDS)
        tool_list = self._tool_list
        tool_list.decide()
        found, remarks = await to_thread.run_sync(_search_list, tool_list, query, limit)
        # Meanwhile a tool may have been removed, or have another definition.
        current = {tool.rule_name: tool for tool in self._tool_list.upstream_tools}
        servers = self._upstreams.servers
        return ToolRanking(
            query,
            tuple(
                RankedTool(current[tool.rule_name], self.is_deferred(tool), hit)
                for tool, hit in found
                if tool.rule_name in current
            ),
            len(current),
            remarks,
            tuple(server.name for server in servers if _is_unknown(server)),
            tuple(
                _describe_unavailable(server)
                for server in servers
                if server.state is ServerState.DOWN
            ),
        )

    def _render_announcement(self) -> str:
        return self._announcement.render(self._tool_list.deferred)

    def _find_always_load(self, name: str) -> bool | None:
        servers = (server for server in self._upstreams.servers if server.name == name)
        return next((server.config.always_load for server in servers), None)


def _search_list(
    tools: ToolList, query: str, limit: int
) -> tuple[list[tuple[Tool, ToolHit]], tuple[str, ...]]:
    found = tools.search(query, limit)
    return found, tools.build_remarks(query, found=bool(found))


def _describe_unavailable(server: Supervisor) -> UnavailableServer:
    return UnavailableServer(server.name, server.problem or "is down")


def _is_unknown(server: Supervisor) -> bool:
    """Whether the server still connects and none of its tools are known."""
    return server.state is ServerState.CONNECTING and not server.tools
