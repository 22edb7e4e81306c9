"""What a search for tools came to."""

from dataclasses import dataclass

from mcp_dispatch.model.tools import Tool


@dataclass(frozen=True, slots=True)
class UnavailableServer:
    """A server that cannot be reached, and why, in words that follow its name."""

    server: str
    problem: str


@dataclass(frozen=True, slots=True)
class ToolSearchResult:
    """`tools` are the best, in order, out of `total` that were looked through; `deferred` the rule
    names of those that the list does not have from the start. `remarks` say what was asked for and
    not found, and what is near."""

    tools: tuple[Tool, ...]
    total: int
    deferred: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()
    connecting: tuple[str, ...] = ()
    unavailable: tuple[UnavailableServer, ...] = ()
