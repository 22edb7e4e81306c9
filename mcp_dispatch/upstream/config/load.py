"""Which upstream servers to start: `mcpServers` files in Claude Code's form, read and checked."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
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
    kind,
    odd_keys,
    read_entry,
)
from mcp_dispatch.upstream.config.model import (
    CALL_SECONDS,
    CONNECT_SECONDS,
    IDLE_SECONDS,
    REMOTE_IDLE_SECONDS,
    Address,
    Launch,
    ServerConfig,
    ToolChoice,
)
from mcp_dispatch.upstream.transports.headers import header_problem

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def expand(text: str, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The text with its variables filled in, and the names that had neither value nor default.

    Those stay as they were written, as do all other shell forms. A value that itself contains
    `${…}` is not expanded again.
    """
    unset: list[str] = []

    def value(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        if name in environ:
            return environ[name]
        if default is None:
            unset.append(name)
            return match.group(0)
        return default

    return _VARIABLE.sub(value, text), tuple(unset)


_SHORTEST_TIMEOUT_MS: Final = 1_000
# What decides which server it is; all other keys say how it is treated.
_IDENTITY: Final = ("type", "command", "args", "env", "url", "headers", "headersHelper", "oauth")
_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_HOST: Final = re.compile(r"[^\s/${}%]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that was skipped or taken differently, in words for the person."""

    file: str
    key: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.message}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry under `mcpServers` as it is written, and its file. `workspace` is set where the
    file comes with one: the same words may start something else in another."""

    file: Path
    value: Json
    workspace: Path | None = None


def load_servers(
    files: Sequence[Path], environ: Mapping[str, str]
) -> tuple[tuple[ServerConfig, ...], tuple[Problem, ...]]:
    """The servers of all files, in order of first mention; a later file replaces an entry whole.

    A bad entry is left out and reported, also where it replaces a good one. A file that cannot
    be read, or does not hold servers, raises `ConfigError`.
    """
    problems: list[Problem] = []
    entries: dict[str, Entry] = {}
    for file in files:
        for name, entry in file_entries(file).items():
            if name in entries:
                problems.append(replaced(name, file, entries[name].file))
            entries[name] = Entry(file, entry)
    servers, faults = read_servers(entries, environ)
    return servers, (*problems, *faults)


def read_servers(
    entries: Mapping[str, Entry],
    environ: Mapping[str, str],
    defaults: UpstreamSettings | None = None,
) -> tuple[tuple[ServerConfig, ...], tuple[Problem, ...]]:
    """A server for each entry that makes sense, in their order; what does not is reported."""
    problems: list[Problem] = []
    servers: list[ServerConfig] = []
    for name, entry in entries.items():
        config, faults = _read_server(name, entry.value, environ, defaults or UpstreamSettings())
        problems += [_problem(entry.file, name, fault) for fault in faults]
        if config is not None:
            servers.append(replace(config, file=entry.file, key=key_of(name, entry)))
    return tuple(servers), tuple(problems)


def key_of(name: str, entry: Entry) -> str:
    """A hash of what is started or reached, as it is written: variables are not filled in, so what
    they hold is not in it."""
    written = entry.value if isinstance(entry.value, dict) else {}
    parts: JsonObject = {key: written[key] for key in _IDENTITY if key in written}
    place = str(entry.workspace) if entry.workspace else None
    text = json.dumps([name, place, parts], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def file_entries(file: Path) -> JsonObject:
    try:
        document: Json = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(file), "", f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(file), "", f"is not JSON: {error}") from error
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(servers, dict):
        problem = f"expected an object of servers, got {kind(servers)}"
        raise ConfigError(str(file), "mcpServers", problem)
    return servers


def replaced(name: str, file: Path, earlier: Path) -> Problem:
    return _problem(file, name, Fault("", f"replaces the entry of the same name in {earlier}"))


def _problem(file: Path, name: str, fault: Fault) -> Problem:
    key = f"mcpServers.{name}.{fault.key}" if fault.key else f"mcpServers.{name}"
    return Problem(str(file), key, fault.message)


def _read_server(
    name: str, entry: Json, environ: Mapping[str, str], defaults: UpstreamSettings
) -> tuple[ServerConfig | None, list[Fault]]:
    misnamed = _name_fault(name)
    if misnamed is not None:
        return None, [misnamed]
    written = read_entry(entry)
    if isinstance(written, tuple):
        return None, list(written)
    faults = list(odd_keys(entry, written)) if isinstance(entry, dict) else []
    completed = _completed(written, defaults)
    reach = _Reading(environ, faults).reach(completed)
    if reach is None:
        return None, faults
    return _server(name, reach, completed, defaults.max_message_bytes, faults), faults


_Written = TypeVar("_Written", bound=StdioEntry | RemoteEntry)


def _completed(written: _Written, defaults: UpstreamSettings) -> _Written:
    """What the entry itself does not say is as `dispatch.upstreams` has it."""
    unsaid = {
        field: getattr(defaults, field)
        for field in defaults.model_fields_set & type(written).model_fields.keys()
        if field not in written.model_fields_set
    }
    return written.model_copy(update=unsaid)


def _name_fault(name: str) -> Fault | None:
    if _SERVER_NAME.fullmatch(name) and "__" not in name and name.strip("_") == name:
        return None
    better = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_-]", "_", name)).strip("_") or "server"
    return Fault(
        "",
        "expected a name of letters, digits, '-' and '_', without '__' and without '_' at either "
        f"end, got {name!r}; rename the server, for example to {better!r}",
    )


def _server(
    name: str,
    reach: Launch | Address,
    written: StdioEntry | RemoteEntry,
    max_message: int,
    faults: list[Fault],
) -> ServerConfig:
    idle = IDLE_SECONDS if isinstance(reach, Launch) else REMOTE_IDLE_SECONDS
    return ServerConfig(
        name=name,
        reach=reach,
        timeout=_seconds("timeout", written.timeout, CALL_SECONDS, faults),
        connect_timeout=_seconds(
            "connectTimeout", written.connect_timeout, CONNECT_SECONDS, faults
        ),
        idle_timeout=_seconds("idleTimeout", written.idle_timeout or None, idle, faults)
        if written.idle_timeout != 0
        else math.inf,
        max_message=max_message,
        sharing=written.sharing,
        connection=written.connection,
        tools=_choice(written.tools),
        prefix=written.prefix,
        always_load=written.always_load,
        max_concurrency=written.max_concurrency,
        restart=written.restart,
        lazy=written.lazy,
        disabled=written.disabled,
    )


class _Reading:
    """Fills in variables and notes what is odd about the texts of one entry."""

    def __init__(self, environ: Mapping[str, str], faults: list[Fault]) -> None:
        self._environ = environ
        self._faults = faults

    def reach(self, written: StdioEntry | RemoteEntry) -> Launch | Address | None:
        return self._launch(written) if isinstance(written, StdioEntry) else self._address(written)

    def _launch(self, written: StdioEntry) -> Launch:
        inherit = written.inherit_env
        return Launch(
            self._text("command", written.command),
            tuple(self._text(f"args.{at}", value) for at, value in enumerate(written.args)),
            self._texts("env", written.env),
            True if inherit is True else tuple(inherit or ()),
        )

    def _address(self, written: RemoteEntry) -> Address | None:
        url = self._text("url", written.url)
        if not _is_address(url):
            expected = "expected an address that begins with https:// or http:// and names a host"
            self._faults.append(Fault("url", f"{expected}; the server is left out"))
            return None
        kind: Literal["http", "sse"] = "sse" if written.type == "sse" else "http"
        return Address(kind, url, self._headers(written.headers), written.headers_helper)

    def _headers(self, written: Mapping[str, str]) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, value in self._texts("headers", written).items():
            problem = header_problem(name, value)
            if problem is None:
                headers[name] = value
            else:
                self._faults.append(Fault(f"headers.{name}", f"{problem}; it is left out"))
        return headers

    def _texts(self, key: str, written: Mapping[str, str]) -> dict[str, str]:
        return {name: self._text(f"{key}.{name}", value) for name, value in written.items()}

    def _text(self, key: str, value: str) -> str:
        if value != value.strip():
            self._faults.append(Fault(key, "begins or ends with white space, which is kept"))
        expanded, unset = expand(value, self._environ)
        self._faults.extend(Fault(key, _unset(variable)) for variable in unset)
        return expanded


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(_HOST.fullmatch(parts.hostname or ""))
    except ValueError:
        return False


def _unset(variable: str) -> str:
    return f"${{{variable}}} is not set and has no default: the text is kept as it is"


def _choice(written: ToolsEntry) -> ToolChoice:
    include = None if written.include is None else tuple(written.include)
    return ToolChoice(include, tuple(written.exclude), dict(written.rename))


def _seconds(key: str, milliseconds: int | None, default: float, faults: list[Fault]) -> float:
    if milliseconds is None:
        return default
    if milliseconds < _SHORTEST_TIMEOUT_MS:
        expected = f"expected at least {_SHORTEST_TIMEOUT_MS} milliseconds"
        faults.append(Fault(key, f"{expected}, got {milliseconds}: the default is used"))
        return default
    return milliseconds / 1000
