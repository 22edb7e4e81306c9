"""ToolCall -> ResolvedCall: find the tool by its exposed name or its rule name."""

from mcp_dispatch.model.calls import ResolvedCall, ToolCall
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.text import truncate
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Snapshot
from mcp_dispatch.registry.registry import ToolRegistry

_MAX_NAME_CHARS = 80


def lookup(snapshot: Snapshot, call: ToolCall, scope: Scope) -> ResolvedCall:
    """A deferred tool can be called before `tool_search` has found it; its schema is unseen then."""
    tool = snapshot.registry.find(call.name)
    if tool is None:
        raise Refused(RefusedBy.LOOKUP, _describe_unknown(snapshot.registry, call.name))
    unseen = (
        tool.server is not None  # built-in tools are never deferred
        and tool.rule_name not in scope.activated_tools
        and snapshot.is_deferred(tool)
    )
    return ResolvedCall(call, tool, unseen)


def _describe_unknown(registry: ToolRegistry, name: str) -> str:
    shown = truncate(name, _MAX_NAME_CHARS)
    if server := registry.find_former_server(name):
        return (
            f"{shown!r} is gone: the server {server!r} does not offer it any more. List the tools "
            "again, or find another with tool_search."
        )
    nearest = registry.suggest_names(name)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else "tools/list has the names."
    return f"No such tool available: {shown!r}; {hint}"
