"""Names that rules, hooks and the journal know."""

import re

TOOL_SEARCH = "tool_search"
CALL_TOOL = "call_tool"
"""An envelope rather than a tool: what is called is inside."""

_OTHER = re.compile(r"[^a-zA-Z0-9_-]")


def rule_name(server: str, tool: str) -> str:
    """The name of an upstream tool as Claude Code has it."""
    return f"mcp__{server}__{in_common_alphabet(tool)}"


def in_common_alphabet(name: str) -> str:
    """`name` with `_` for every character that some client refuses."""
    return _OTHER.sub("_", name)
