"""Models of the JSON that a hook prints, as strict as Claude Code."""

import json
import math
import re
from typing import Annotated, Final, Literal, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from mcp_dispatch.hooks.events import HookEventName
from mcp_dispatch.model.json import Json
from mcp_dispatch.model.text import format_excerpt

_T = TypeVar("_T")

_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class InvalidHookOutput(Exception):
    """stdout starts like JSON but is not a valid answer; the message gives the reason."""


def _reject_null(value: _T | None) -> _T:
    if value is None:
        raise ValueError("is null")
    return value


# None means that the key is absent; an explicit null is an error.
_Optional = Annotated[_T | None, AfterValidator(_reject_null)]


class _OutputModel(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, alias_generator=to_camel)


class HookSpecificOutput(_OutputModel):
    """`hookSpecificOutput` of any event."""

    hook_event_name: str
    additional_context: str = ""


class PreToolUseOutput(HookSpecificOutput):
    """`hookSpecificOutput` of PreToolUse."""

    permission_decision: _Optional[Literal["allow", "deny", "ask", "defer"]] = None
    permission_decision_reason: str = ""
    updated_input: _Optional[dict[str, JsonValue]] = None


class PostToolUseOutput(HookSpecificOutput):
    """`hookSpecificOutput` of PostToolUse and PostToolUseFailure."""

    updated_tool_output: JsonValue = None
    updated_mcp_tool_output: JsonValue = Field(default=None, alias="updatedMCPToolOutput")


class PermissionRequestDecision(_OutputModel):
    """`decision` of PermissionRequest."""

    behavior: Literal["allow", "deny"]
    updated_input: _Optional[dict[str, JsonValue]] = None
    updated_permissions: _Optional[list[JsonValue]] = None
    message: str = ""
    interrupt: bool = False


class PermissionRequestOutput(HookSpecificOutput):
    """`hookSpecificOutput` of PermissionRequest."""

    decision: _Optional[PermissionRequestDecision] = None


class PermissionDeniedOutput(HookSpecificOutput):
    """`hookSpecificOutput` of PermissionDenied."""

    retry: bool = False


class ElicitationOutput(HookSpecificOutput):
    """`hookSpecificOutput` of Elicitation and ElicitationResult."""

    action: _Optional[Literal["accept", "decline", "cancel"]] = None
    content: _Optional[dict[str, JsonValue]] = None


class HookOutputDocument(_OutputModel):
    """Fields of an answer to any event."""

    should_continue: bool = Field(default=True, alias="continue")
    stop_reason: str = ""
    system_message: str = ""
    suppress_output: bool = False
    decision: _Optional[Literal["approve", "block"]] = None
    reason: str = ""
    background: bool = Field(default=False, alias="async")
    specific: _Optional[dict[str, JsonValue]] = Field(default=None, alias="hookSpecificOutput")


_MODELS_BY_EVENT: Final[dict[HookEventName, type[HookSpecificOutput]]] = {
    HookEventName.PRE_TOOL_USE: PreToolUseOutput,
    HookEventName.POST_TOOL_USE: PostToolUseOutput,
    HookEventName.POST_TOOL_USE_FAILURE: PostToolUseOutput,
    HookEventName.PERMISSION_REQUEST: PermissionRequestOutput,
    HookEventName.PERMISSION_DENIED: PermissionDeniedOutput,
    HookEventName.ELICITATION: ElicitationOutput,
    HookEventName.ELICITATION_RESULT: ElicitationOutput,
}


def is_json_like(stdout: str) -> bool:
    return _strip_bom_and_whitespace(stdout).startswith("{")


def parse_document(
    event: HookEventName, stdout: str
) -> tuple[HookOutputDocument, HookSpecificOutput | None]:
    """Return the answer and its event-specific part. Raise `InvalidHookOutput` if it is invalid."""
    try:
        document = HookOutputDocument.model_validate(
            _decode_json(_strip_bom_and_whitespace(stdout))
        )
        if document.specific is None:
            return document, None
        specific = _MODELS_BY_EVENT.get(event, HookSpecificOutput).model_validate(document.specific)
    except ValidationError as error:
        raise InvalidHookOutput(
            f"stdout is not a hook's answer: {_format_errors(error)}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidHookOutput(f"stdout is not one JSON document: {error}") from error
    if specific.hook_event_name != event.value:
        got = format_excerpt(specific.hook_event_name)
        raise InvalidHookOutput(
            "stdout is not a hook's answer: hookSpecificOutput.hookEventName: "
            f'expected "{event.value}", got "{got}"'
        )
    return document, specific


def _format_errors(error: ValidationError) -> str:
    return "; ".join(
        f"{format_excerpt('.'.join(str(part) for part in fault['loc']))}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    )


def _strip_bom_and_whitespace(stdout: str) -> str:
    return stdout.strip().removeprefix("\ufeff").strip()


def _decode_json(text: str) -> Json:
    value: Json = json.loads(text, parse_constant=_reject_constant, parse_float=_parse_finite_float)
    return _replace_lone_surrogates(value) if _SURROGATE_ESCAPE.search(text) else value


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _parse_finite_float(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{format_excerpt(number)} is too large a number")
    return value


def _replace_lone_surrogates(value: Json) -> Json:
    """Replace lone surrogates, so that an unusual file name does not invalidate a deny."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_replace_lone_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {
            str(_replace_lone_surrogates(key)): _replace_lone_surrogates(item)
            for key, item in value.items()
        }
    return value
