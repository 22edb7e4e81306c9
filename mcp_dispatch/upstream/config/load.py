"""Reads `mcpServers` files in the format of Claude Code and builds server configurations."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeVar
from urllib.parse import urlsplit

from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.models import UpstreamSettings
from mcp_dispatch.upstream.config.entry import (
    Fault,
    RemoteEntry,
    StdioEntry,
    ToolsEntry,
    describe_type,
    find_ineffective_keys,
    parse_entry,
)
from mcp_dispatch.upstream.config.model import (
    CALL_SECONDS,
    CONNECT_SECONDS,
    IDLE_SECONDS,
    REMOTE_IDLE_SECONDS,
    RemoteEndpoint,
    ServerConfig,
    StdioEndpoint,
    ToolSelection,
)
from mcp_dispatch.upstream.transports.headers import find_header_problem

_VARIABLE_PATTERN: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def expand_variables(text: str, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the text with its variables replaced, and the names without value or default.

    Variables without value stay as written, as do all other shell forms. A value that itself
    contains `${…}` is not expanded again.
    """
    unset: list[str] = []

    def replace_variable(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        if name in environ:
            return environ[name]
        if default is None:
            unset.append(name)
            return match.group(0)
        return default

    return _VARIABLE_PATTERN.sub(replace_variable, text), tuple(unset)


_MIN_TIMEOUT_MS: Final = 1_000
# The keys that identify a server; all other keys are options.
_IDENTITY_KEYS: Final = (
    "type",
    "command",
    "args",
    "env",
    "url",
    "headers",
    "headersHelper",
    "oauth",
)
_SERVER_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9_-]+")
_HOST_PATTERN: Final = re.compile(r"[^\s/${}%]+")


@dataclass(frozen=True, slots=True)
class ServerConfigProblem:
    """Something in a file that was skipped or changed, described for the operator."""

    file: str
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.message}"


@dataclass(frozen=True, slots=True)
class RawServerEntry:
    """One entry under `mcpServers` as it is written, and its file.

    `workspace` is set if the file belongs to one: the same entry may start another program in
    another workspace.
    """

    file: Path
    value: Json
    workspace: Path | None = None


def read_servers(
    entries: Mapping[str, RawServerEntry],
    environ: Mapping[str, str],
    defaults: UpstreamSettings | None = None,
) -> tuple[tuple[ServerConfig, ...], tuple[ServerConfigProblem, ...]]:
    """Return a server for each valid entry, in order, and the problems of the others."""
    problems: list[ServerConfigProblem] = []
    servers: list[ServerConfig] = []
    for name, entry in entries.items():
        config, faults = _read_server(name, entry.value, environ, defaults or UpstreamSettings())
        problems += [_to_problem(entry.file, name, fault) for fault in faults]
        if config is not None:
            servers.append(replace(config, file=entry.file, key=hash_entry(name, entry)))
    return tuple(servers), tuple(problems)


def hash_entry(name: str, entry: RawServerEntry) -> str:
    """Return a hash of the keys that identify the server, without expanding variables.

    The values of variables, which may be secrets, are therefore not part of the hash.
    """
    written = entry.value if isinstance(entry.value, dict) else {}
    parts: JsonObject = {key: written[key] for key in _IDENTITY_KEYS if key in written}
    place = str(entry.workspace) if entry.workspace else None
    text = json.dumps([name, place, parts], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def read_file_entries(file: Path) -> JsonObject:
    try:
        document: Json = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(file), "", f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(file), "", f"is not JSON: {error}") from error
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        problem = f"expected an object of servers, got {describe_type(servers)}"
        raise ConfigError(str(file), "mcpServers", problem)
    return servers


def describe_replacement(name: str, file: Path, earlier: Path) -> ServerConfigProblem:
    return _to_problem(file, name, Fault("", f"replaces the entry of the same name in {earlier}"))


def _to_problem(file: Path, name: str, fault: Fault) -> ServerConfigProblem:
    key = f"mcpServers.{name}.{fault.key}" if fault.key else f"mcpServers.{name}"
    return ServerConfigProblem(str(file), key, fault.message)


def _read_server(
    name: str, entry: Json, environ: Mapping[str, str], defaults: UpstreamSettings
) -> tuple[ServerConfig | None, list[Fault]]:
    name_fault = _find_name_fault(name)
    if name_fault is not None:
        return None, [name_fault]
    parsed = parse_entry(entry)
    if isinstance(parsed, tuple):
        return None, list(parsed)
    faults = list(find_ineffective_keys(entry, parsed)) if isinstance(entry, dict) else []
    completed = _apply_defaults(parsed, defaults)
    endpoint = _EntryExpander(environ, faults).build_endpoint(completed)
    if endpoint is None:
        return None, faults
    return _build_server(name, endpoint, completed, defaults.max_message_bytes, faults), faults


_ParsedEntry = TypeVar("_ParsedEntry", bound=StdioEntry | RemoteEntry)


def _apply_defaults(parsed: _ParsedEntry, defaults: UpstreamSettings) -> _ParsedEntry:
    """Fill keys that the entry leaves out from `dispatch.upstreams`."""
    missing = {
        field: getattr(defaults, field)
        for field in defaults.model_fields_set & type(parsed).model_fields.keys()
        if field not in parsed.model_fields_set
    }
    return parsed.model_copy(update=missing)


def _find_name_fault(name: str) -> Fault | None:
    if _SERVER_NAME_PATTERN.fullmatch(name) and "__" not in name and name.strip("_") == name:
        return None
    better = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_-]", "_", name)).strip("_") or "server"
    return Fault(
        "",
        "expected a name of letters, digits, '-' and '_', without '__' and without '_' at either "
        f"end, got {name!r}; rename the server, for example to {better!r}",
    )


def _build_server(
    name: str,
    endpoint: StdioEndpoint | RemoteEndpoint,
    parsed: StdioEntry | RemoteEntry,
    max_message_bytes: int,
    faults: list[Fault],
) -> ServerConfig:
    idle = IDLE_SECONDS if isinstance(endpoint, StdioEndpoint) else REMOTE_IDLE_SECONDS
    return ServerConfig(
        name=name,
        endpoint=endpoint,
        timeout=_to_seconds("timeout", parsed.timeout, CALL_SECONDS, faults),
        connect_timeout=_to_seconds(
            "connectTimeout", parsed.connect_timeout, CONNECT_SECONDS, faults
        ),
        idle_timeout=_to_seconds("idleTimeout", parsed.idle_timeout or None, idle, faults)
        if parsed.idle_timeout != 0
        else math.inf,
        max_message=max_message_bytes,
        sharing=parsed.sharing,
        connection=parsed.connection,
        tools=_to_tool_selection(parsed.tools),
        prefix=parsed.prefix,
        always_load=parsed.always_load,
        max_concurrency=parsed.max_concurrency,
        restart=parsed.restart,
        lazy=parsed.lazy,
        disabled=parsed.disabled,
    )


class _EntryExpander:
    """Expands the variables of one entry and records problems of its texts."""

    def __init__(self, environ: Mapping[str, str], faults: list[Fault]) -> None:
        self._environ = environ
        self._faults = faults

    def build_endpoint(
        self, parsed: StdioEntry | RemoteEntry
    ) -> StdioEndpoint | RemoteEndpoint | None:
        return (
            self._build_stdio_endpoint(parsed)
            if isinstance(parsed, StdioEntry)
            else self._build_remote_endpoint(parsed)
        )

    def _build_stdio_endpoint(self, parsed: StdioEntry) -> StdioEndpoint:
        inherit = parsed.inherit_env
        return StdioEndpoint(
            self._expand_text("command", parsed.command),
            tuple(self._expand_text(f"args.{at}", value) for at, value in enumerate(parsed.args)),
            self._expand_texts("env", parsed.env),
            True if inherit is True else tuple(inherit or ()),
        )

    def _build_remote_endpoint(self, parsed: RemoteEntry) -> RemoteEndpoint | None:
        url = self._expand_text("url", parsed.url)
        if not _is_http_url(url):
            expected = "expected an address that begins with https:// or http:// and names a host"
            self._faults.append(Fault("url", f"{expected}; the server is left out"))
            return None
        kind: Literal["http", "sse"] = "sse" if parsed.type == "sse" else "http"
        return RemoteEndpoint(
            kind, url, self._expand_headers(parsed.headers), parsed.headers_helper
        )

    def _expand_headers(self, written: Mapping[str, str]) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, value in self._expand_texts("headers", written).items():
            problem = find_header_problem(name, value)
            if problem is None:
                headers[name] = value
            else:
                self._faults.append(Fault(f"headers.{name}", f"{problem}; it is left out"))
        return headers

    def _expand_texts(self, key: str, written: Mapping[str, str]) -> dict[str, str]:
        return {name: self._expand_text(f"{key}.{name}", value) for name, value in written.items()}

    def _expand_text(self, key: str, value: str) -> str:
        if value != value.strip():
            self._faults.append(Fault(key, "begins or ends with white space, which is kept"))
        expanded, unset = expand_variables(value, self._environ)
        self._faults.extend(Fault(key, _describe_unset(variable)) for variable in unset)
        return expanded


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(
            _HOST_PATTERN.fullmatch(parts.hostname or "")
        )
    except ValueError:
        return False


def _describe_unset(variable: str) -> str:
    return f"${{{variable}}} is not set and has no default: the text is kept as it is"


def _to_tool_selection(parsed: ToolsEntry) -> ToolSelection:
    include = None if parsed.include is None else tuple(parsed.include)
    return ToolSelection(include, tuple(parsed.exclude), dict(parsed.rename))


def _to_seconds(key: str, milliseconds: int | None, default: float, faults: list[Fault]) -> float:
    if milliseconds is None:
        return default
    if milliseconds < _MIN_TIMEOUT_MS:
        expected = f"expected at least {_MIN_TIMEOUT_MS} milliseconds"
        faults.append(Fault(key, f"{expected}, got {milliseconds}: the default is used"))
        return default
    return milliseconds / 1000
