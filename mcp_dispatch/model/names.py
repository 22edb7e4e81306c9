"""Names that rules, hooks and the journal know."""

import re

from mcp_dispatch.model.json import JsonObject

TOOL_SEARCH = "tool_search"
CALL_TOOL = "call_tool"
"""An envelope rather than a tool: what is called is inside."""

_UNSAFE_CHARACTER = re.compile(r"[^a-zA-Z0-9_-]")


def build_rule_name(server: str, tool: str) -> str:
    """The name of an upstream tool as Claude Code has it."""
    return f"mcp__{server}__{replace_unsafe_characters(tool)}"


def replace_unsafe_characters(name: str) -> str:
    """`name` with `_` for every character that some client refuses."""
    return _UNSAFE_CHARACTER.sub("_", name)


def parse_call_tool(name: str, arguments: JsonObject) -> tuple[str, JsonObject] | None:
    """The name and the arguments of the call in this one; None for what is no envelope or a torn
    one, and for an envelope around an envelope, by which nothing but a detour can be meant."""
    if name != CALL_TOOL or not arguments.keys() <= {"name", "arguments"}:
        return None
    tool, given = arguments.get("name"), arguments.get("arguments", {})
    if not isinstance(tool, str) or tool in ("", CALL_TOOL) or not isinstance(given, dict):
        return None
    return tool, given
