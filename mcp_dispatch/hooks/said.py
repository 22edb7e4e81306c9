"""The JSON a hook may print, checked as strictly as Claude Code checks it."""

import json
import math
import re
from typing import Annotated, Final, Literal, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from mcp_dispatch.hooks.events import Event
from mcp_dispatch.hooks.text import shown
from mcp_dispatch.model.json import Json

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


class _Specific(_Said):
    hook_event_name: str
    additional_context: str = ""


class Before(_Specific):
    """`hookSpecificOutput` of PreToolUse."""

    permission_decision: _Optional[Literal["allow", "deny", "ask", "defer"]] = None
    permission_decision_reason: str = ""
    updated_input: _Optional[dict[str, JsonValue]] = None


class After(_Specific):
    """`hookSpecificOutput` of PostToolUse and PostToolUseFailure."""

    updated_tool_output: JsonValue = None
    updated_mcp_tool_output: JsonValue = Field(default=None, alias="updatedMCPToolOutput")


class Document(_Said):
    """What every event's answer may hold."""

    go_on: bool = Field(default=True, alias="continue")
    stop_reason: str = ""
    system_message: str = ""
    suppress_output: bool = False
    decision: _Optional[Literal["approve", "block"]] = None
    reason: str = ""
    background: bool = Field(default=False, alias="async")


class BeforeDocument(Document):
    specific: _Optional[Before] = Field(default=None, alias="hookSpecificOutput")


class AfterDocument(Document):
    specific: _Optional[After] = Field(default=None, alias="hookSpecificOutput")


def looks_like_json(stdout: str) -> bool:
    return _trimmed(stdout).startswith("{")


def read_before(stdout: str) -> BeforeDocument:
    return _checked(BeforeDocument, stdout, Event.PRE_TOOL_USE)


def read_after(stdout: str, event: Event) -> AfterDocument:
    return _checked(AfterDocument, stdout, event)


_AnyDocument = TypeVar("_AnyDocument", BeforeDocument, AfterDocument)


def _checked(model: type[_AnyDocument], stdout: str, event: Event) -> _AnyDocument:
    try:
        document = model.model_validate(_decoded(_trimmed(stdout)))
    except ValidationError as error:
        raise NotAnAnswer(f"stdout is not a hook's answer: {_faults(error)}") from error
    except (ValueError, RecursionError) as error:
        raise NotAnAnswer(f"stdout is not one JSON document: {error}") from error
    specific = document.specific
    if specific is not None and specific.hook_event_name != event.value:
        got = shown(specific.hook_event_name)
        raise NotAnAnswer(
            "stdout is not a hook's answer: hookSpecificOutput.hookEventName: "
            f'expected "{event.value}", got "{got}"'
        )
    return document


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
