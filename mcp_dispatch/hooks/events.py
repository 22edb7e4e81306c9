"""Hook events: those that this server fires, and those of Claude Code that it never fires."""

from enum import Enum
from typing import Final


class HookEventName(Enum):
    """An event that this server fires. The value is its name in settings.json."""

    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    POST_TOOL_USE_FAILURE = "PostToolUseFailure"
    POST_TOOL_BATCH = "PostToolBatch"
    PERMISSION_REQUEST = "PermissionRequest"
    PERMISSION_DENIED = "PermissionDenied"
    SESSION_START = "SessionStart"
    SESSION_END = "SessionEnd"
    ELICITATION = "Elicitation"
    ELICITATION_RESULT = "ElicitationResult"


SINGLE_CALL_EVENTS: Final = frozenset(
    {HookEventName.PRE_TOOL_USE, HookEventName.POST_TOOL_USE, HookEventName.POST_TOOL_USE_FAILURE}
    | {HookEventName.PERMISSION_REQUEST, HookEventName.PERMISSION_DENIED}
)
"""Events about one call: only these support a rule in `if`."""

EVENTS_BLOCKED_BY_EXIT_2: Final = frozenset(
    {
        HookEventName.PRE_TOOL_USE,
        HookEventName.POST_TOOL_USE,
        HookEventName.POST_TOOL_USE_FAILURE,
        HookEventName.POST_TOOL_BATCH,
    }
    | {HookEventName.ELICITATION, HookEventName.ELICITATION_RESULT}
)

PLAIN_TEXT_EVENTS: Final = frozenset({HookEventName.SESSION_START})
"""Events whose plain-text stdout is added to the model's context."""

EVENTS_WITHOUT_MATCHER: Final = frozenset({HookEventName.POST_TOOL_BATCH})

# Events of a client that talks to the model; an MCP server cannot observe them.
UNSUPPORTED_EVENT_NAMES: Final = frozenset(
    {"Notification", "UserPromptSubmit", "UserPromptExpansion", "Stop", "StopFailure", "Setup"}
    | {"SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "PreModelSwitch"}
    | {"PostModelSwitch", "TeammateIdle", "TaskCreated", "TaskCompleted", "ConfigChange"}
    | {"WorktreeCreate", "WorktreeRemove", "InstructionsLoaded", "CwdChanged", "FileChanged"}
    | {"DirectoryAdded", "MessageDisplay"}
)


def format_hook_name(event: HookEventName, subject: str) -> str:
    """Return the name used for the model and in the log, such as `PreToolUse:Bash`."""
    return f"{event.value}:{subject}" if subject else event.value
