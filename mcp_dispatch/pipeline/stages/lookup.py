"""ToolCall -> ResolvedCall: the tool exists, under its exposed name or its rule name."""

from collections.abc import Callable, Collection

from mcp_dispatch.model.calls import ResolvedCall, ToolCall
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import Tool
from mcp_dispatch.registry.registry import Pool

_SHOWN = 80


def lookup(
    pool: Pool,
    call: ToolCall,
    deferred: Callable[[Tool], bool] = lambda _: False,
    activated: Collection[str] = (),
) -> ResolvedCall:
    """A tool that is `deferred` can be called, by guessing its arguments, before it is found."""
    tool = pool.find(call.name)
    if tool is None:
        raise Refused(RefusedBy.LOOKUP, _unknown(pool, call.name))
    return ResolvedCall(call, tool, deferred(tool) and tool.rule_name not in activated)


def _unknown(pool: Pool, name: str) -> str:
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    if server := pool.formerly_of(name):
        return (
            f"{shown!r} is gone: the server {server!r} does not offer it any more. List the tools "
            "again, or find another with tool_search."
        )
    nearest = pool.nearest(name)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else "tools/list has the names."
    return f"No such tool available: {shown!r}; {hint}"
