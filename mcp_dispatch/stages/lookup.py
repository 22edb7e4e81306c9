"""ToolCall -> ResolvedCall: the tool exists, under its exposed name or its rule name."""

from mcp_dispatch.model.calls import ResolvedCall, ToolCall
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.pool.assemble import Pool

_SHOWN = 80


def lookup(pool: Pool, call: ToolCall) -> ResolvedCall:
    tool = pool.find(call.name)
    if tool is None:
        raise Refused(RefusedBy.LOOKUP, _unknown(pool, call.name))
    return ResolvedCall(call, tool)


def _unknown(pool: Pool, name: str) -> str:
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    nearest = pool.nearest(name)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else "tools/list has the names."
    return f"No such tool available: {shown!r}; {hint}"
