"""One hook as it is written in a settings file, and the action it stands for."""

import json
from typing import Annotated, Final, Literal, TypedDict, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from mcp_dispatch.hooks.actions import Action, Command, HttpPost, UpstreamCall
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.problems import Report, value_shown


def _startable(text: str) -> str:
    if "\0" in text:
        raise ValueError("NUL")
    return text


def _postable(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or not url.isascii():
        raise ValueError("not http")
    if not url.isprintable() or " " in url or parts.port == 0:
        raise ValueError("not a URL")
    return url


_Startable = Annotated[str, AfterValidator(_startable)]
_Name = Annotated[str, Field(min_length=1)]


class _Entry(BaseModel):
    """Strict: a number is not taken for a text."""

    model_config = ConfigDict(extra="ignore", strict=True)

    timeout: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    on_failure: Literal["continue", "block"] = Field(default="continue", alias="onFailure")
    status_message: str = Field(default="", alias="statusMessage")


class _CommandEntry(_Entry):
    command: Annotated[_Startable, Field(min_length=1)]
    args: list[_Startable] = []
    shell: Literal["bash"] = "bash"
    background: bool = Field(default=False, alias="async")


class _HttpEntry(_Entry):
    url: Annotated[str, AfterValidator(_postable)]
    headers: dict[str, str] = {}
    allowed_env_vars: list[str] = Field(default=[], alias="allowedEnvVars")


class _UpstreamEntry(_Entry):
    server: _Name
    tool: _Name
    input: dict[str, JsonValue] = {}


_EXPECTED: Final = {
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
_OPTIONS: Final = frozenset({"timeout", "async", "onFailure", "statusMessage", "allowedEnvVars"})
_WITHOUT_EFFECT: Final = frozenset({"asyncRewake", "once"})
_READ_ELSEWHERE: Final = frozenset({"type", "if"})

_AnyEntry = TypeVar("_AnyEntry", _CommandEntry, _HttpEntry, _UpstreamEntry)


class _Common(TypedDict):
    timeout: float | None
    condition: str | None
    block_on_failure: bool
    status: str


def read_action(entry: Json, report: Report) -> Action | None:
    """What the hook does, or None once it has been reported why it cannot be done."""
    if not isinstance(entry, dict):
        report.expected('an object with "type"', entry)
        return None
    match entry.get("type"):
        case "command":
            return _command(entry, report)
        case "http":
            return _http(entry, report)
        case "mcp_tool":
            return _upstream(entry, report)
        case "prompt" | "agent" as kind:
            report.at("type").say(f'"{kind}" needs a model; the hook does not run')
        case kind:
            report.at("type").expected('"command", "http" or "mcp_tool"', kind)
    return None


def _command(entry: JsonObject, report: Report) -> Command | None:
    written = _validated(_CommandEntry, entry, report)
    if written is None:
        return None
    return Command(
        command=written.command,
        args=tuple(written.args) if "args" in entry else None,
        shell="bash" if "shell" in entry else "sh",
        background=written.background,
        **_common(entry, written),
    )


def _http(entry: JsonObject, report: Report) -> HttpPost | None:
    written = _validated(_HttpEntry, entry, report)
    if written is None:
        return None
    return HttpPost(
        url=written.url,
        headers=tuple(written.headers.items()),
        variables=tuple(written.allowed_env_vars),
        **_common(entry, written),
    )


def _upstream(entry: JsonObject, report: Report) -> UpstreamCall | None:
    written = _validated(_UpstreamEntry, entry, report)
    if written is None:
        return None
    return UpstreamCall(
        server=written.server,
        tool=written.tool,
        input=json.dumps(written.input, sort_keys=True),
        **_common(entry, written),
    )


def _common(entry: JsonObject, written: _Entry) -> _Common:
    return {
        "timeout": written.timeout,
        "condition": _condition(entry),
        "block_on_failure": written.on_failure == "block",
        "status": written.status_message,
    }


def _condition(entry: JsonObject) -> str | None:
    if "if" not in entry:
        return None
    rule = entry["if"]
    return rule if isinstance(rule, str) else value_shown(rule)


def _validated(model: type[_AnyEntry], entry: JsonObject, report: Report) -> _AnyEntry | None:
    """With one bad option the hook runs without that option; else it does not run."""
    wrong: dict[str, Json] = {}
    try:
        written = model.model_validate(entry)
    except ValidationError as error:
        wrong = {str(fault["loc"][0]): cast(Json, fault["input"]) for fault in error.errors()}
        written = None
    for key, value in wrong.items():
        got = value_shown(None if key not in entry else value)
        kept = "the default is used" if key in _OPTIONS else "the hook does not run"
        report.at(key).say(f"expected {_EXPECTED[key]}, got {got}; {kept}")
    if wrong.keys() - _OPTIONS:
        return None
    _report_the_unknown(model, entry, report)
    good = {key: entry[key] for key in entry.keys() - wrong.keys()}
    return written or model.model_validate(good)


def _report_the_unknown(model: type[_Entry], entry: JsonObject, report: Report) -> None:
    known = {field.alias or name for name, field in model.model_fields.items()}
    for key in entry:
        if key in _WITHOUT_EFFECT:
            report.at(key).say("has no effect in a server of tools")
        elif key not in known and key not in _READ_ELSEWHERE:
            kind = entry["type"]
            report.at(key).say(f"is not an option of a hook of type {kind} and has no effect")
