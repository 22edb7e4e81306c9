"""Parses one entry under `mcpServers` and describes what is wrong with it."""

from dataclasses import dataclass
from typing import Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.upstream.config.model import ConnectionRule, SharingRule

_REMOTE_TYPES: Final = frozenset({"http", "streamable-http", "sse"})
_UNSUPPORTED_KEYS: Final = frozenset({"oauth", "request_timeout_ms", "bareElicitationCapability"})


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem of one key of an entry; an empty key means the entry itself."""

    key: str
    message: str


class ToolsEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    include: list[str] | None = None
    exclude: list[str] = []
    rename: dict[str, str] = {}


class _Entry(BaseModel):
    """Keys of all kinds of servers. Types are strict: a number is not accepted as a text."""

    model_config = ConfigDict(extra="ignore", strict=True)

    timeout: int | None = None
    connect_timeout: int | None = Field(default=None, alias="connectTimeout")
    idle_timeout: int | None = Field(default=None, alias="idleTimeout", ge=0)
    sharing: SharingRule = "exclusive"
    connection: ConnectionRule = "shared"
    tools: ToolsEntry = ToolsEntry()
    prefix: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{0,32}$")
    always_load: bool | None = Field(default=None, alias="alwaysLoad")
    max_concurrency: int | None = Field(default=None, alias="maxConcurrency", ge=1)
    restart: bool = True
    lazy: bool = False
    disabled: bool = False


class StdioEntry(_Entry):
    command: str = Field(min_length=1)
    type: Literal["stdio"] = "stdio"
    args: list[str] = []
    env: dict[str, str] = {}
    inherit_env: bool | list[str] = Field(default=[], alias="inheritEnv")


class RemoteEntry(_Entry):
    type: Literal["http", "streamable-http", "sse"]
    url: str
    headers: dict[str, str] = {}
    headers_helper: str | None = Field(default=None, alias="headersHelper", min_length=1)


_EXPECTED: Final = {
    "command": "the program to start",
    "type": '"stdio", "http" or "sse"',
    "url": "an address",
    "headers": "an object of texts",
    "headersHelper": "a command",
    "args": "a list of texts",
    "env": "an object of texts",
    "timeout": "a whole number of milliseconds",
    "connectTimeout": "a whole number of milliseconds",
    "idleTimeout": "a whole number of milliseconds, or 0",
    "restart": "true or false",
    "inheritEnv": "true or a list of variable names",
    "sharing": '"exclusive", "server" or "shared"',
    "connection": '"shared" or "per-scope"',
    "tools": 'an object with "include", "exclude" or "rename"',
    "prefix": "at most 32 letters, digits, '-' and '_'",
    "alwaysLoad": "true or false",
    "maxConcurrency": "a whole number over 0",
    "lazy": "true or false",
    "disabled": "true or false",
}
_EXPECTED_ITEMS: Final = {
    "args": "a text",
    "env": "a text",
    "headers": "a text",
    "inheritEnv": "the name of a variable",
    "tools.include": "a list of tool names",
    "tools.exclude": "a list of tool names",
    "tools.rename": "an object of tool names",
}
# Values of all other keys may be secrets and are not printed.
_PRINTABLE_KEYS: Final = frozenset(
    {"type", "sharing", "timeout", "prefix", "alwaysLoad", "maxConcurrency", "lazy", "disabled"}
    | {"connectTimeout", "idleTimeout", "restart"}
)


def parse_entry(entry: Json) -> StdioEntry | RemoteEntry | tuple[Fault, ...]:
    """Return the parsed entry, or its faults.

    An entry with an empty URL is a template that was not filled in: no server and no fault.
    """
    if not isinstance(entry, dict):
        return (Fault("", f"expected an object, got {describe_type(entry)}"),)
    fault = _find_transport_fault(entry)
    if fault is not None:
        return (fault,)
    remote = entry.get("type") in _REMOTE_TYPES
    if remote and entry.get("url") == "":
        return ()
    try:
        return (RemoteEntry if remote else StdioEntry).model_validate(entry)
    except ValidationError as error:
        return _to_faults(error)


def find_ineffective_keys(entry: JsonObject, parsed: StdioEntry | RemoteEntry) -> tuple[Fault, ...]:
    """Return a fault for each key that has no effect."""
    sort = "a stdio" if isinstance(parsed, StdioEntry) else "a remote"
    fields = type(parsed).model_fields.items()
    known = {field.alias or name for name, field in fields}
    not_yet = [
        Fault(key, "is not supported yet and has no effect")
        for key in entry
        if key in _UNSUPPORTED_KEYS
    ]
    unknown = [
        Fault(key, f"is not a key of {sort} server and has no effect")
        for key in entry
        if key not in _UNSUPPORTED_KEYS and key not in known
    ]
    return (*not_yet, *unknown)


def describe_type(value: Json) -> str:
    """Return the type of a value for messages that must not contain the value."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object"


def _find_transport_fault(entry: JsonObject) -> Fault | None:
    if "type" not in entry and "command" not in entry and "url" in entry:
        return Fault("", 'has a "url" but no "type"; add "type": "http"')
    if entry.get("type") == "ws":
        return Fault("type", "'ws' is not supported; the server is left out")
    return None


def _to_faults(error: ValidationError) -> tuple[Fault, ...]:
    """Return one fault per wrong key, in the order of the keys."""
    messages: dict[str, str] = {}
    for item in error.errors(include_url=False, include_context=False):
        # For a key with two possible types the path contains each type that was tried.
        key = ".".join(str(part) for part in item["loc"] if part not in ("bool", "list[str]"))
        value = cast(Json, item["input"])
        got = "nothing" if item["type"] == "missing" else _describe_value(key, value)
        wrong = f"expected {_describe_expected(key)}, got {got}"
        if item["type"] == "extra_forbidden":
            wrong = 'is not one of "include", "exclude" and "rename"'
        messages.setdefault(key, f"{wrong}; the server is left out")
    return tuple(Fault(key, message) for key, message in messages.items())


def _describe_expected(key: str) -> str:
    within = [text for outer, text in _EXPECTED_ITEMS.items() if f"{key}.".startswith(f"{outer}.")]
    return _EXPECTED.get(key) or " or ".join(within)


def _describe_value(key: str, value: Json) -> str:
    if key in _PRINTABLE_KEYS and value is not None:
        return repr(value)[:40]
    return "an empty text" if value == "" else describe_type(value)
