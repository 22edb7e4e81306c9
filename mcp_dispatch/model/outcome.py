"""The possible outcomes of a call: `Completed | Refusal | Suspended | ProtocolError |
Cancelled`."""

from dataclasses import dataclass, field
from enum import Enum

from mcp_dispatch.model.decision import Decision
from mcp_dispatch.model.json import Json, JsonObject


class RefusedBy(Enum):
    """The stage that refused the call."""

    LOOKUP = "lookup"
    SCHEMA = "schema"
    SEMANTIC = "semantic"
    HOOK = "hook"
    PERMISSION = "permission"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The call was refused before it ran; `message` tells the model why and what to do next."""

    by: RefusedBy
    message: str
    decision: Decision | None = field(default=None, compare=False, repr=False)
    """The decision of a permission refusal, for the journal."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """A call of protocol version 2026-07-28 that needs an answer; the client sends it again with
    `state`."""

    input_requests: JsonObject
    state: str


@dataclass(frozen=True, slots=True)
class ProtocolError:
    """A JSON-RPC error of an upstream or of ours, forwarded unchanged."""

    code: int
    message: str
    data: Json = None


class CancelReason(Enum):
    USER_INTERRUPTED = "user_interrupted"
    SIBLING_ERROR = "sibling_error"
    STREAMING_FALLBACK = "streaming_fallback"


@dataclass(frozen=True, slots=True)
class Cancelled:
    reason: CancelReason
    message: str = ""


_ERROR_START, _ERROR_END = "<tool_use_error>", "</tool_use_error>"


def format_error(message: str) -> str:
    return f"{_ERROR_START}{message}{_ERROR_END}"


def strip_error_tags(text: str) -> str:
    """Remove the tags that mark an error for models."""
    return text.removeprefix(_ERROR_START).removesuffix(_ERROR_END)


def format_cancellation(cancelled: Cancelled) -> str:
    reason = cancelled.reason.value
    if not cancelled.message:
        return format_error(f"The call was cancelled ({reason}).")
    return format_error(f"The call was cancelled ({reason}): {cancelled.message}.")
