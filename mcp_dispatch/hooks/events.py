"""The events a hook can wait for: those that happen here, and those that never do."""

from enum import Enum
from typing import Final


class HookEventName(Enum):
    """An event that is fired here. The value is the name in settings.json."""

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
"""Only about these can a rule in `if` say anything."""

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
"""Where stdout that is no JSON is meant for the model."""

EVENTS_WITHOUT_MATCHER: Final = frozenset({HookEventName.POST_TOOL_BATCH})

# They belong to a client that talks to the model; a server of tools never sees them.
UNSUPPORTED_EVENT_NAMES: Final = frozenset(
    {"Notification", "UserPromptSubmit", "UserPromptExpansion", "Stop", "StopFailure", "Setup"}
    | {"SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "PreModelSwitch"}
    | {"PostModelSwitch", "TeammateIdle", "TaskCreated", "TaskCompleted", "ConfigChange"}
    | {"WorktreeCreate", "WorktreeRemove", "InstructionsLoaded", "CwdChanged", "FileChanged"}
    | {"DirectoryAdded", "MessageDisplay"}
)


def format_hook_name(event: HookEventName, subject: str) -> str:
    """How a hook is named to the model and in the log: `PreToolUse:Bash`."""
    return f"{event.value}:{subject}" if subject else event.value
