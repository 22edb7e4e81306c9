"""Tools that rules can name: the built-in tools, those of Claude Code, and their fields."""

BUILT_IN_TOOLS = frozenset(
    {
        *("Read", "Write", "Edit", "Glob", "Grep", "Bash", "TaskStop", "WebFetch"),
        *("tool_search", "call_tool", "read_result"),
    }
)
CLAUDE_CODE_TOOLS = frozenset(
    {
        *("Agent", "Task", "Skill", "Cd", "WebSearch", "NotebookEdit", "MultiEdit", "LSP"),
        *("Monitor", "PowerShell", "ToolSearch", "TodoWrite", "AskUserQuestion", "BashOutput"),
        *("ExitPlanMode", "EnterPlanMode", "NotebookRead", "SlashCommand", "LS", "KillShell"),
        "KillBash",
    }
)
"""Tools of Claude Code that this server does not have: rules about them are valid and unused."""

RENAMED_TOOLS = {"KillShell": "TaskStop", "KillBash": "TaskStop"}

READ_TOOL_PATH_FIELDS = {"Read": "file_path", "Grep": "path", "Glob": "path"}
WRITE_TOOL_PATH_FIELDS = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
SHORT_FORM_FIELDS = {
    **READ_TOOL_PATH_FIELDS,
    **WRITE_TOOL_PATH_FIELDS,
    "Bash": "command",
    "WebFetch": "url",
}
"""The field that the argument of a short form sets: `Read(src/a.py)` sets `file_path`."""

PRIMARY_FIELDS = {**SHORT_FORM_FIELDS, "PowerShell": "command"}
"""The field that a tool's own specifier syntax matches; `Tool(field:value)` never matches it."""

PARAMETER_FIELDS = {
    "Bash": ("description", "timeout", "run_in_background"),
    "Read": ("offset", "limit", "pages"),
    "Edit": ("old_string", "new_string", "replace_all"),
    "Write": ("content",),
    "Glob": ("pattern",),
    "Grep": (
        *("pattern", "glob", "type", "output_mode", "-A", "-B", "-C", "-n", "-i", "context"),
        *("multiline", "head_limit", "offset"),
    ),
    "WebFetch": ("prompt",),
    "TaskStop": ("task_id", "shell_id"),
}
"""The fields that `Tool(field:value)` can match."""

PATH_RULE_TOOLS = {
    **dict.fromkeys(("Write", "NotebookEdit", "MultiEdit"), "Edit"),
    **dict.fromkeys(("Glob", "Grep"), "Read"),
}
"""Tools without path rules of their own, with the tool whose path rules apply to them."""
