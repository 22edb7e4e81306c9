"""What hooks are told about the world around a call, and where their words go beside the answer."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from mcp_dispatch.model.json import JsonObject


class HookEvent(Enum):
    """What the journal records of hooks."""

    PERMISSION_DECISION = "hook_permission_decision"
    CANCELLED = "hook_cancelled"
    STOPPED_CONTINUATION = "hook_stopped_continuation"
    ERROR = "hook_error_during_execution"
    ADDITIONAL_CONTEXT = "hook_additional_context"
    SUMMARY = "stop_hook_summary"


@dataclass(frozen=True, slots=True)
class HookRecord:
    """One line for the journal. `hook` is a name like `PreToolUse:Bash`."""

    event: HookEvent
    hook: str
    details: JsonObject


class HookSink(Protocol):
    """Where the words of a hook go, beside its answer."""

    async def show_status(self, message: str) -> None:
        """Tells the client what is being waited for."""
        ...

    def add_note(self, text: str) -> None:
        """Tells the model, with the next result of this scope."""
        ...

    async def store_text(self, text: str) -> str:
        """Keeps a text that is too long for the model; what the model is shown instead."""
        ...

    async def record(self, record: HookRecord) -> None: ...


class NullSink:
    """For hooks without a client and a journal."""

    async def show_status(self, message: str) -> None:
        return None

    def add_note(self, text: str) -> None:
        return None

    async def store_text(self, text: str) -> str:
        return text

    async def record(self, record: HookRecord) -> None:
        return None


@dataclass(frozen=True, slots=True)
class HookContext:
    session_id: str
    transcript_path: Path
    cwd: Path
    permission_mode: str
    sink: HookSink = field(default_factory=NullSink, compare=False, repr=False)
