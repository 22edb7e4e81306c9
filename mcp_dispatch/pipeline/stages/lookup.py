"""ToolCall -> ResolvedCall: the tool exists, under its exposed name or its rule name."""

from collections.abc import Callable, Collection

from mcp_dispatch.model.calls import ResolvedCall, ToolCall
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import Tool
from mcp_dispatch.registry.registry import ToolRegistry

_MAX_NAME_CHARS = 80


def lookup(
    registry: ToolRegistry,
    call: ToolCall,
    is_deferred: Callable[[Tool], bool] = lambda _: False,
    activated_tools: Collection[str] = (),
) -> ResolvedCall:
    """A tool that is `deferred` can be called, by guessing its arguments, before it is found."""
    tool = registry.find(call.name)
    if tool is None:
        raise Refused(RefusedBy.LOOKUP, _describe_unknown(registry, call.name))
    return ResolvedCall(call, tool, is_deferred(tool) and tool.rule_name not in activated_tools)


def _describe_unknown(registry: ToolRegistry, name: str) -> str:
    shown = name if len(name) <= _MAX_NAME_CHARS else f"{name[:_MAX_NAME_CHARS]}…"
    if server := registry.find_former_server(name):
        return (
            f"{shown!r} is gone: the server {server!r} does not offer it any more. List the tools "
            "again, or find another with tool_search."
        )
    nearest = registry.suggest_names(name)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else "tools/list has the names."
    return f"No such tool available: {shown!r}; {hint}"
