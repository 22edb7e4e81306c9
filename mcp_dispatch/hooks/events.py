"""The events a hook can wait for: those that happen here, and those that never do."""

from enum import Enum
from typing import Final


class Event(Enum):
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


OF_ONE_CALL: Final = frozenset(
    {Event.PRE_TOOL_USE, Event.POST_TOOL_USE, Event.POST_TOOL_USE_FAILURE}
    | {Event.PERMISSION_REQUEST, Event.PERMISSION_DENIED}
)
"""Only about these can a rule in `if` say anything."""

BLOCKED_BY_EXIT_2: Final = frozenset(
    {Event.PRE_TOOL_USE, Event.POST_TOOL_USE, Event.POST_TOOL_USE_FAILURE, Event.POST_TOOL_BATCH}
    | {Event.ELICITATION, Event.ELICITATION_RESULT}
)

SAY_IN_PLAIN_TEXT: Final = frozenset({Event.SESSION_START})
"""Where stdout that is no JSON is meant for the model."""

WITHOUT_MATCHER: Final = frozenset({Event.POST_TOOL_BATCH})

# They belong to a client that talks to the model; a server of tools never sees them.
NEVER_HERE: Final = frozenset(
    {"Notification", "UserPromptSubmit", "UserPromptExpansion", "Stop", "StopFailure", "Setup"}
    | {"SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "PreModelSwitch"}
    | {"PostModelSwitch", "TeammateIdle", "TaskCreated", "TaskCompleted", "ConfigChange"}
    | {"WorktreeCreate", "WorktreeRemove", "InstructionsLoaded", "CwdChanged", "FileChanged"}
    | {"DirectoryAdded", "MessageDisplay"}
)


def hook_name(event: Event, about: str) -> str:
    """How a hook is named to the model and in the log: `PreToolUse:Bash`."""
    return f"{event.value}:{about}" if about else event.value
