"""The context of hooks: the session they run in, and the sink for their output."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from mcp_dispatch.model.json import JsonObject


class HookEvent(Enum):
    """The events of hooks that the journal records."""

    PERMISSION_DECISION = "hook_permission_decision"
    CANCELLED = "hook_cancelled"
    STOPPED_CONTINUATION = "hook_stopped_continuation"
    ERROR = "hook_error_during_execution"
    ADDITIONAL_CONTEXT = "hook_additional_context"
    SUMMARY = "stop_hook_summary"


@dataclass(frozen=True, slots=True)
class HookRecord:
    """One journal record. `hook` is a name like `PreToolUse:Bash`."""

    event: HookEvent
    hook: str
    details: JsonObject


class HookSink(Protocol):
    """Receives the output of hooks that is not part of their decision."""

    async def show_status(self, message: str) -> None:
        """Show the client which hook is running."""
        ...

    def add_note(self, text: str) -> None:
        """Keep a text for the model; the next result of this scope carries it."""
        ...

    async def store_text(self, text: str) -> str:
        """Store a text that is too long for the model, and return the text that replaces it."""
        ...

    async def record(self, record: HookRecord) -> None: ...


class NullSink:
    """The sink of hooks without a client and a journal."""

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
