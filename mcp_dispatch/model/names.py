"""Names of tools, as rules, hooks and the journal use them."""

import re

from mcp_dispatch.model.json import JsonObject

TOOL_SEARCH = "tool_search"
CALL_TOOL = "call_tool"
"""Not a tool itself: its arguments contain the name and the arguments of another call."""

_UNSAFE_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


def build_rule_name(server: str, tool: str) -> str:
    """Return the name that Claude Code gives to an upstream tool."""
    return f"mcp__{server}__{replace_unsafe_characters(tool)}"


def replace_unsafe_characters(name: str) -> str:
    """Replace every character that some client rejects with `_`."""
    return _UNSAFE_CHARACTER.sub("_", name)


def parse_call_tool(name: str, arguments: JsonObject) -> tuple[str, JsonObject] | None:
    """Return the name and the arguments of the call inside a `call_tool`.

    None for any other tool, for invalid arguments, and for a `call_tool` inside a `call_tool`,
    which serves only to evade rules.
    """
    if name != CALL_TOOL or not arguments.keys() <= {"name", "arguments"}:
        return None
    tool, given = arguments.get("name"), arguments.get("arguments", {})
    if not isinstance(tool, str) or tool in ("", CALL_TOOL) or not isinstance(given, dict):
        return None
    return tool, given
