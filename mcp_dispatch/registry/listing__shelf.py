"""The tools that may be shown: which are listed, which wait to be found, and the search."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import TOOL_SEARCH
from mcp_dispatch.model.tools import Tool
from mcp_dispatch.registry.deferral import Deferral
from mcp_dispatch.search.document import Entry, Hit, entry_of
from mcp_dispatch.search.index import ToolIndex
from mcp_dispatch.search.query import parse
from mcp_dispatch.search.suggestions import remarks

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
