"""The registry of tools: built-in tools first, then upstream tools, sorted and without duplicate
names."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from mcp_dispatch.model.tools import Tool

_MAX_SUGGESTIONS = 3
_MAX_REMOVED_NAMES = 20_000


@dataclass(frozen=True, slots=True)
class ShadowedTool:
    """A tool whose name another tool has. It can still be called by its rule name."""

    tool: Tool
    by: Tool

    def __str__(self) -> str:
        return (
            f"{self.tool.rule_name} is not listed: {self.by.rule_name} has the name "
            f"{self.tool.name}; it can be called as {self.tool.rule_name}"
        )


class ToolRegistry:
    """The current tools. Immutable: a change creates a new registry."""

    def __init__(
        self,
        listed: tuple[Tool, ...],
        shadowed: tuple[ShadowedTool, ...],
        old_names: Mapping[str, str],
        removed_names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.listed = listed
        self.shadowed = shadowed
        self._old_names = old_names
        self._by_name = {tool.name: tool for tool in listed}
        every = [*listed, *(loser.tool for loser in shadowed)]
        self._by_rule_name: dict[str, Tool] = {}
        for tool in every:
            self._by_rule_name.setdefault(tool.rule_name, tool)
        self._removed_names = {
            name: server for name, server in removed_names.items() if self.find(name) is None
        }

    @property
    def server_by_name(self) -> dict[str, str]:
        """The server of every name that an upstream tool has, or had since this process started."""
        names = {**self._by_name, **self._by_rule_name}.items()
        return {**self._removed_names, **{name: tool.server for name, tool in names if tool.server}}

    @property
    def rule_names_by_server(self) -> dict[str, set[str]]:
        """The rule names of each server's tools, without the prefix that they share."""
        names: dict[str, set[str]] = {}
        for name, tool in self._by_rule_name.items():
            if tool.server:
                names.setdefault(tool.server, set()).add(name.removeprefix(f"mcp__{tool.server}__"))
        return names

    def find_former_server(self, name: str) -> str | None:
        """Return the server that once had a tool of this name, if it has been removed."""
        return self._removed_names.get(name)

    def find(self, name: str) -> Tool | None:
        """Find a tool by its exposed name, its rule name, or an earlier name, in this order."""
        known = self._by_name.get(name) or self._by_rule_name.get(name)
        return known or self._by_name.get(self._old_names.get(name, ""))

    def suggest_names(self, name: str) -> list[str]:
        folded = {known.casefold(): known for known in self._by_name}
        close = difflib.get_close_matches(name[:200].casefold(), folded, _MAX_SUGGESTIONS)
        return [folded[match] for match in close]


def build_registry(
    built_ins: Iterable[Tool],
    upstream: Iterable[Tool],
    old_names: Mapping[str, str] = MappingProxyType({}),
    previous: ToolRegistry | None = None,
) -> ToolRegistry:
    """`upstream` is in the order of the server configuration: of two equal names the first wins,
    and a built-in tool wins over both. The result does not depend on the order in which servers
    connect. Names of the `previous` registry are remembered with their servers.

    A tool is not listed under a name that is the rule name of another tool: it would get its calls.
    """
    winners: dict[str, Tool] = {tool.name: tool for tool in built_ins}
    own = sorted(winners.values(), key=_get_name)
    every = list(upstream)
    owners: dict[str, Tool] = {}
    for tool in every:
        owners.setdefault(tool.rule_name, tool)
    shadowed: list[ShadowedTool] = []
    theirs: list[Tool] = []
    for tool in every:
        owner = owners.get(tool.name, tool)
        winner = owner if owner is not tool else winners.setdefault(tool.name, tool)
        if winner is tool:
            theirs.append(tool)
        else:
            shadowed.append(ShadowedTool(tool, winner))
    gone = _keep_latest(previous.server_by_name) if previous else {}
    return ToolRegistry((*own, *sorted(theirs, key=_get_name)), tuple(shadowed), old_names, gone)


def _keep_latest(names: Mapping[str, str]) -> dict[str, str]:
    """Bound the memory that a server can use by changing the names of its tools."""
    return dict(list(names.items())[-_MAX_REMOVED_NAMES:])


def _get_name(tool: Tool) -> str:
    return tool.name
