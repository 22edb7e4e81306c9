"""The result of a search for tools."""

from dataclasses import dataclass

from mcp_dispatch.model.tools import Tool


@dataclass(frozen=True, slots=True)
class UnavailableServer:
    """A server that cannot be reached; `problem` is a phrase that follows its name."""

    server: str
    problem: str


@dataclass(frozen=True, slots=True)
class ToolSearchResult:
    """`tools` are the best matches of `total` searched tools, best first; `deferred` are the rule
    names of those that are not listed from the start. `remarks` name what was not found, and
    similar names."""

    tools: tuple[Tool, ...]
    total: int
    deferred: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()
    connecting: tuple[str, ...] = ()
    unavailable: tuple[UnavailableServer, ...] = ()
