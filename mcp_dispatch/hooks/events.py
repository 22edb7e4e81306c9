"""The events a hook can wait for: those we fire, those we will, and those that never happen here."""

from enum import Enum
from typing import Final


class Event(Enum):
    """An event that is fired here. The value is the name in settings.json."""

    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    POST_TOOL_USE_FAILURE = "PostToolUseFailure"


NOT_YET: Final = frozenset(
    {"PostToolBatch", "PermissionRequest", "PermissionDenied", "SessionStart", "SessionEnd"}
    | {"Elicitation", "ElicitationResult"}
)

# They belong to a client that talks to the model; a server of tools never sees them.
NEVER_HERE: Final = frozenset(
    {"Notification", "UserPromptSubmit", "UserPromptExpansion", "Stop", "StopFailure", "Setup"}
    | {"SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "PreModelSwitch"}
    | {"PostModelSwitch", "TeammateIdle", "TaskCreated", "TaskCompleted", "ConfigChange"}
    | {"WorktreeCreate", "WorktreeRemove", "InstructionsLoaded", "CwdChanged", "FileChanged"}
    | {"DirectoryAdded", "MessageDisplay"}
)


def hook_name(event: Event, tool: str) -> str:
    """How a hook is named to the model and in the log: `PreToolUse:Bash`."""
    return f"{event.value}:{tool}"
