"""Validates one hook entry of a settings file and converts it to an action."""

import json
from typing import Annotated, Final, Literal, TypedDict, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from mcp_dispatch.hooks.actions import Action, HookCommand, HttpPost, UpstreamCall
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.problems import ProblemReporter, describe_value


def _reject_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("NUL")
    return text


def _validate_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or not url.isascii():
        raise ValueError("not http")
    if not url.isprintable() or " " in url or parts.port == 0:
        raise ValueError("not a URL")
    return url


_TextWithoutNul = Annotated[str, AfterValidator(_reject_nul)]
_Name = Annotated[str, Field(min_length=1)]


class _Entry(BaseModel):
    """Keys of every hook type. Strict: a number is not accepted as a string."""

    model_config = ConfigDict(extra="ignore", strict=True)

    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    on_failure: Literal["continue", "block"] = Field(default="continue", alias="onFailure")
    status_message: str = Field(default="", alias="statusMessage")


class _CommandEntry(_Entry):
    command: Annotated[_TextWithoutNul, Field(min_length=1)]
    args: list[_TextWithoutNul] = []
    shell: Literal["bash"] = "bash"
    background: bool = Field(default=False, alias="async")


class _HttpEntry(_Entry):
    url: Annotated[str, AfterValidator(_validate_url)]
    headers: dict[str, str] = {}
    allowed_env_vars: list[str] = Field(default=[], alias="allowedEnvVars")


class _UpstreamEntry(_Entry):
    server: _Name
    tool: _Name
    input: dict[str, JsonValue] = {}


_EXPECTATIONS: Final = {
    "command": "a command, not empty and without NUL",
    "args": "a list of texts",
    "shell": '"bash"',
    "timeout": "a number of seconds over 0",
    "async": "true or false",
    "onFailure": '"continue" or "block"',
    "statusMessage": "a text",
    "url": "an http or https URL",
    "headers": "an object of texts",
    "allowedEnvVars": "a list of names",
    "server": "the name of a server",
    "tool": "the name of a tool",
    "input": "an object",
}
_OPTIONAL_KEYS: Final = frozenset(
    {"timeout", "async", "onFailure", "statusMessage", "allowedEnvVars"}
)
_IGNORED_KEYS: Final = frozenset({"asyncRewake", "once"})
_KEYS_READ_ELSEWHERE: Final = frozenset({"type", "if"})

_AnyEntry = TypeVar("_AnyEntry", _CommandEntry, _HttpEntry, _UpstreamEntry)


class _CommonOptions(TypedDict):
    timeout: float | None
    condition: str | None
    block_on_failure: bool
    status: str


def parse_action(entry: Json, report: ProblemReporter) -> Action | None:
    """Return the action of the entry, or None after reporting why the hook cannot run."""
    if not isinstance(entry, dict):
        report.report_unexpected('an object with "type"', entry)
        return None
    match entry.get("type"):
        case "command":
            return _parse_command(entry, report)
        case "http":
            return _parse_http(entry, report)
        case "mcp_tool":
            return _parse_mcp_tool(entry, report)
        case "prompt" | "agent" as kind:
            report.enter_key("type").report(f'"{kind}" needs a model; the hook does not run')
        case kind:
            report.enter_key("type").report_unexpected('"command", "http" or "mcp_tool"', kind)
    return None


def _parse_command(entry: JsonObject, report: ProblemReporter) -> HookCommand | None:
    parsed = _validate_entry(_CommandEntry, entry, report)
    if parsed is None:
        return None
    return HookCommand(
        command=parsed.command,
        args=tuple(parsed.args) if "args" in entry else None,
        shell="bash" if "shell" in entry else "sh",
        background=parsed.background,
        **_collect_common_options(entry, parsed),
    )


def _parse_http(entry: JsonObject, report: ProblemReporter) -> HttpPost | None:
    parsed = _validate_entry(_HttpEntry, entry, report)
    if parsed is None:
        return None
    return HttpPost(
        url=parsed.url,
        headers=tuple(parsed.headers.items()),
        variables=tuple(parsed.allowed_env_vars),
        **_collect_common_options(entry, parsed),
    )


def _parse_mcp_tool(entry: JsonObject, report: ProblemReporter) -> UpstreamCall | None:
    parsed = _validate_entry(_UpstreamEntry, entry, report)
    if parsed is None:
        return None
    return UpstreamCall(
        server=parsed.server,
        tool=parsed.tool,
        input=json.dumps(parsed.input, sort_keys=True),
        **_collect_common_options(entry, parsed),
    )


def _collect_common_options(entry: JsonObject, parsed: _Entry) -> _CommonOptions:
    return {
        "timeout": parsed.timeout,
        "condition": _read_condition(entry),
        "block_on_failure": parsed.on_failure == "block",
        "status": parsed.status_message,
    }


def _read_condition(entry: JsonObject) -> str | None:
    if "if" not in entry:
        return None
    rule = entry["if"]
    return rule if isinstance(rule, str) else describe_value(rule)


def _validate_entry(
    model: type[_AnyEntry], entry: JsonObject, report: ProblemReporter
) -> _AnyEntry | None:
    """Return the entry without invalid options, or None if a required key is invalid."""
    invalid: dict[str, Json] = {}
    try:
        parsed = model.model_validate(entry)
    except ValidationError as error:
        invalid = {str(fault["loc"][0]): cast(Json, fault["input"]) for fault in error.errors()}
        parsed = None
    for key, value in invalid.items():
        found = describe_value(None if key not in entry else value)
        consequence = "the default is used" if key in _OPTIONAL_KEYS else "the hook does not run"
        report.enter_key(key).report(f"expected {_EXPECTATIONS[key]}, got {found}; {consequence}")
    if invalid.keys() - _OPTIONAL_KEYS:
        return None
    _report_unknown_keys(model, entry, report)
    valid = {key: entry[key] for key in entry.keys() - invalid.keys()}
    return parsed or model.model_validate(valid)


def _report_unknown_keys(model: type[_Entry], entry: JsonObject, report: ProblemReporter) -> None:
    known = {field.alias or name for name, field in model.model_fields.items()}
    for key in entry:
        if key in _IGNORED_KEYS:
            report.enter_key(key).report("has no effect in a server of tools")
        elif key not in known and key not in _KEYS_READ_ELSEWHERE:
            kind = entry["type"]
            report.enter_key(key).report(
                f"is not an option of a hook of type {kind} and has no effect"
            )
