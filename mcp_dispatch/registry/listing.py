"""What clients are offered: the list of tools, what waits behind it, and the search that finds it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from anyio import to_thread

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import TOOL_SEARCH
from mcp_dispatch.model.tool_search import Down, Findings
from mcp_dispatch.model.tools import Tool
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.registry.announcement import Announcement, contents, names_by_server
from mcp_dispatch.registry.deferral import Deferral, Terms
from mcp_dispatch.registry.registry import Pool
from mcp_dispatch.search.document import Entry, Hit, entry_of
from mcp_dispatch.search.index import ToolIndex
from mcp_dispatch.search.query import parse
from mcp_dispatch.search.suggestions import remarks
from mcp_dispatch.tools.call_tool import CallTool
from mcp_dispatch.tools.tool_search import ToolSearch
from mcp_dispatch.upstream.lifecycle import State
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.upstreams import Upstreams

MOST_RESULTS = 50
_HASH = len("_12345678")


class Shelf:
    """`visible` are the tools that no rule takes away, in the order of the list. Immutable: when
    they change there is a new shelf, so that nothing is found which is gone."""

    def __init__(
        self,
        visible: Sequence[Tool],
        deferral: Deferral,
        instructions: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.visible = tuple(visible)
        self._deferral = deferral
        self._instructions = instructions
        # Without a way to find them, nothing may wait.
        self._searchable = any(t.server is None and t.name == TOOL_SEARCH for t in visible)

    def decide(self) -> None:
        """What is deferred, if that is still open."""
        self._deferral.decide(self.visible)

    def is_deferred(self, tool: Tool) -> bool:
        return self._searchable and self._deferral.defers(tool)

    @property
    def deferred(self) -> list[Tool]:
        return [tool for tool in self.visible if self.is_deferred(tool)]

    def listed(self, activated: Collection[str] = ()) -> list[Tool]:
        """What is always there, then the tools with these rule names, in this order: what was
        listed before keeps its place."""
        loaded = [tool for tool in self.visible if not self.is_deferred(tool)]
        waiting = {tool.rule_name: tool for tool in self.deferred} if activated else {}
        return [*loaded, *(waiting[name] for name in activated if name in waiting)]

    # -- the search

    @property
    def upstream(self) -> list[Tool]:
        """What can be found."""
        return [tool for tool in self.visible if tool.server is not None]

    def has_all(self, query: str) -> bool:
        """Whether the query is for exact names, all of which are there."""
        asked = parse(query).names
        names = {name for tool in self.upstream for name in (tool.name, tool.rule_name)}
        return bool(asked) and names.issuperset(asked)

    def search(self, query: str, limit: int) -> list[tuple[Tool, Hit]]:
        """The first search builds the index, which takes a moment: call it in a thread."""
        index, tools = self._indexed
        wanted = MOST_RESULTS if parse(query).names else min(limit, MOST_RESULTS)
        return [(tools[id(hit.entry)], hit) for hit in index.search(query, wanted)]

    def remarks(self, query: str, *, found: bool) -> tuple[str, ...]:
        return remarks(self._indexed[0], query, found=found)

    @cached_property
    def _indexed(self) -> tuple[ToolIndex, dict[int, Tool]]:
        entries = [(self._entry(tool), tool) for tool in self.upstream]
        index = ToolIndex([entry for entry, _ in entries])
        return index, {id(entry): tool for entry, tool in entries}

    def _entry(self, tool: Tool) -> Entry:
        server = tool.server or ""
        definition: JsonObject = {**tool.definition, "name": _telling_name(tool, server)}
        entry = entry_of(server, definition, self._instructions.get(server, ""))
        return replace(entry, aliases=(tool.name, tool.rule_name))


def _telling_name(tool: Tool, server: str) -> str:
    """The name whose words say most: the exposed one, but where that was cut, the server's own."""
    own = tool.rule_name.removeprefix(f"mcp__{server}__")
    exposed = tool.name.removeprefix("mcp__").removeprefix(f"{server}__")
    kept = exposed[:-_HASH]
    return own if len(kept) > _HASH and own.startswith(kept) else exposed


SEARCH_SECONDS = 5.0
"""How long a search waits for servers that have never been heard of yet."""

_MORE_TOOLS = "Tools of these servers that are not in your list are found with tool_search:"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A tool that was found, whether it waits behind the search, and why it was found."""

    tool: Tool
    deferred: bool
    hit: Hit


@dataclass(frozen=True, slots=True)
class Search:
    """What a query came to, out of `total` tools."""

    query: str
    ranked: tuple[Ranked, ...]
    total: int
    remarks: tuple[str, ...]
    connecting: tuple[str, ...]
    down: tuple[Down, ...]


class Offering:
    """As old as the server; `show` tells it what there is."""

    def __init__(self, terms: Terms, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._deferral = Deferral(terms, self._always_load)
        self._announcement = Announcement()
        self._tools: list[Tool] = [CallTool(), ToolSearch(self.find, self._waiting)]
        self._shelf = Shelf((), self._deferral)
        self.hidden: list[Tool] = []
        """What a rule takes away."""

        self.shadowed: list[Tool] = []
        """What another tool has the name of."""

    @property
    def built_ins(self) -> list[Tool]:
        """Of what there is only because there are servers."""
        return list(self._tools) if self._deferral.possible and self._upstreams.servers else []

    def show(self, pool: Pool, policy: Policy) -> None:
        """What a bare deny takes away is neither listed nor found."""
        visible: list[Tool] = []
        self.hidden = []
        for tool in pool.listed:
            denied = policy.is_hidden(tool.rule_name, tool.name, tool.server)
            (visible if denied is None else self.hidden).append(tool)
        self.shadowed = [loser.tool for loser in pool.shadowed]
        self._shelf = Shelf(
            visible,
            self._deferral,
            {server.name: server.shelf.instructions for server in self._upstreams.servers},
        )

    @property
    def shelf(self) -> Shelf:
        return self._shelf

    def is_deferred(self, tool: Tool) -> bool:
        return self._shelf.is_deferred(tool)

    def definitions(self, activated: Sequence[str] = ()) -> list[JsonObject]:
        """The `tools/list` entries for one who has found the tools with these rule names."""
        self._shelf.decide()
        return [tool.definition for tool in self._shelf.listed(activated)]

    def instructions(self) -> str:
        """For the greeting, which waits for no server: the servers, and what is known of them."""
        if not self.built_ins:
            return ""
        unheard = [server.name for server in self._upstreams.servers if _unheard(server)]
        if not unheard:
            self._shelf.decide()
        known = names_by_server(self._shelf.deferred)
        names = contents({**dict.fromkeys(unheard, ()), **known})
        return f"{_MORE_TOOLS}\n{names}" if names else ""

    # -- the search

    async def find(self, query: str, limit: int) -> Findings:
        """For `tool_search`."""
        found = await self.search(query, limit)
        return Findings(
            tuple(each.tool for each in found.ranked),
            found.total,
            frozenset(each.tool.rule_name for each in found.ranked if each.deferred),
            found.remarks,
            found.connecting,
            found.down,
        )

    async def search(self, query: str, limit: int) -> Search:
        if not self._shelf.has_all(query):
            await self._upstreams.settled(SEARCH_SECONDS)
        shelf = self._shelf
        shelf.decide()
        found, remarks = await to_thread.run_sync(_search, shelf, query, limit)
        # Meanwhile a tool may have gone, or have another definition.
        there = {tool.rule_name: tool for tool in self._shelf.upstream}
        servers = self._upstreams.servers
        return Search(
            query,
            tuple(
                Ranked(there[tool.rule_name], self.is_deferred(tool), hit)
                for tool, hit in found
                if tool.rule_name in there
            ),
            len(there),
            remarks,
            tuple(server.name for server in servers if _unheard(server)),
            tuple(_down(server) for server in servers if server.state is State.DOWN),
        )

    def _waiting(self) -> str:
        return self._announcement.of(self._shelf.deferred)

    def _always_load(self, name: str) -> bool | None:
        servers = (server for server in self._upstreams.servers if server.name == name)
        return next((server.config.always_load for server in servers), None)


def _search(shelf: Shelf, query: str, limit: int) -> tuple[list[tuple[Tool, Hit]], tuple[str, ...]]:
    found = shelf.search(query, limit)
    return found, shelf.remarks(query, found=bool(found))


def _down(server: Supervisor) -> Down:
    return Down(server.name, server.problem or "is down")


def _unheard(server: Supervisor) -> bool:
    """Still connecting, and nothing of it has been searched."""
    return server.state is State.CONNECTING and not server.tools
