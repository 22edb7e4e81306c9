"""The JSON a hook may print, checked as strictly as Claude Code checks it."""

import json
import math
import re
from typing import Annotated, Final, Literal, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from mcp_dispatch.hooks.events import Event
from mcp_dispatch.model.json import Json
from mcp_dispatch.model.text import shown

_T = TypeVar("_T")

_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class NotAnAnswer(Exception):
    """stdout begins like JSON and is no answer; the message says why."""


def _not_null(value: _T | None) -> _T:
    if value is None:
        raise ValueError("is null")
    return value


# Absent is None here; a null that was written is an error.
_Optional = Annotated[_T | None, AfterValidator(_not_null)]


class _Said(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, alias_generator=to_camel)


class Specific(_Said):
    """`hookSpecificOutput` of any event."""

    hook_event_name: str
    additional_context: str = ""


class Before(Specific):
    """`hookSpecificOutput` of PreToolUse."""

    permission_decision: _Optional[Literal["allow", "deny", "ask", "defer"]] = None
    permission_decision_reason: str = ""
    updated_input: _Optional[dict[str, JsonValue]] = None


class After(Specific):
    """`hookSpecificOutput` of PostToolUse and PostToolUseFailure."""

    updated_tool_output: JsonValue = None
    updated_mcp_tool_output: JsonValue = Field(default=None, alias="updatedMCPToolOutput")


class Decided(_Said):
    """`decision` of PermissionRequest."""

    behavior: Literal["allow", "deny"]
    updated_input: _Optional[dict[str, JsonValue]] = None
    updated_permissions: _Optional[list[JsonValue]] = None
    message: str = ""
    interrupt: bool = False


class Permission(Specific):
    """`hookSpecificOutput` of PermissionRequest."""

    decision: _Optional[Decided] = None


class Denied(Specific):
    """`hookSpecificOutput` of PermissionDenied."""

    retry: bool = False


class Elicited(Specific):
    """`hookSpecificOutput` of Elicitation and ElicitationResult."""

    action: _Optional[Literal["accept", "decline", "cancel"]] = None
    content: _Optional[dict[str, JsonValue]] = None


class Document(_Said):
    """What every event's answer may hold."""

    go_on: bool = Field(default=True, alias="continue")
    stop_reason: str = ""
    system_message: str = ""
    suppress_output: bool = False
    decision: _Optional[Literal["approve", "block"]] = None
    reason: str = ""
    background: bool = Field(default=False, alias="async")
    specific: _Optional[dict[str, JsonValue]] = Field(default=None, alias="hookSpecificOutput")


_SHAPES: Final[dict[Event, type[Specific]]] = {
    Event.PRE_TOOL_USE: Before,
    Event.POST_TOOL_USE: After,
    Event.POST_TOOL_USE_FAILURE: After,
    Event.PERMISSION_REQUEST: Permission,
    Event.PERMISSION_DENIED: Denied,
    Event.ELICITATION: Elicited,
    Event.ELICITATION_RESULT: Elicited,
}


def looks_like_json(stdout: str) -> bool:
    return _trimmed(stdout).startswith("{")


def read_document(event: Event, stdout: str) -> tuple[Document, Specific | None]:
    """The answer to this event, and what of it is for this event only. Raises `NotAnAnswer`."""
    try:
        document = Document.model_validate(_decoded(_trimmed(stdout)))
        if document.specific is None:
            return document, None
        specific = _SHAPES.get(event, Specific).model_validate(document.specific)
    except ValidationError as error:
        raise NotAnAnswer(f"stdout is not a hook's answer: {_faults(error)}") from error
    except (ValueError, RecursionError) as error:
        raise NotAnAnswer(f"stdout is not one JSON document: {error}") from error
    if specific.hook_event_name != event.value:
        got = shown(specific.hook_event_name)
        raise NotAnAnswer(
            "stdout is not a hook's answer: hookSpecificOutput.hookEventName: "
            f'expected "{event.value}", got "{got}"'
        )
    return document, specific


def _faults(error: ValidationError) -> str:
    return "; ".join(
        f"{shown('.'.join(str(part) for part in fault['loc']))}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    )


def _trimmed(stdout: str) -> str:
    return stdout.strip().removeprefix("\ufeff").strip()


def _decoded(text: str) -> Json:
    value: Json = json.loads(text, parse_constant=_not_json, parse_float=_finite)
    return _mended(value) if _SURROGATE_ESCAPE.search(text) else value


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{shown(number)} is too large a number")
    return value


def _mended(value: Json) -> Json:
    """Half a surrogate pair is replaced: a deny must not be lost for an odd file name in it."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {str(_mended(key)): _mended(item) for key, item in value.items()}
    return value
