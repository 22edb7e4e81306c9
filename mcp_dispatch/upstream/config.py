"""Which upstream servers to start: `mcpServers` files in Claude Code's form, read and checked."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.models import UpstreamSettings
from mcp_dispatch.upstream.entry import (
    Fault,
    StdioEntry,
    ToolsEntry,
    kind,
    odd_keys,
    read_entry,
)
from mcp_dispatch.upstream.expansion import expand
from mcp_dispatch.upstream.server import CALL_SECONDS, Launch, ServerConfig, ToolChoice

_SHORTEST_TIMEOUT_MS: Final = 1_000
# What decides which server it is; all other keys say how it is treated.
_IDENTITY: Final = ("type", "command", "args", "env", "url", "headers", "headersHelper", "oauth")
_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


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
    if not isinstance(written, StdioEntry):
        return None, list(written)
    faults = list(odd_keys(entry)) if isinstance(entry, dict) else []
    return _server(name, _completed(written, defaults), environ, faults), faults


def _completed(written: StdioEntry, defaults: UpstreamSettings) -> StdioEntry:
    """What the entry itself does not say is as `dispatch.upstreams` has it."""
    unsaid = {
        field: getattr(defaults, field)
        for field in ("timeout", "sharing", "max_concurrency", "inherit_env", "always_load", "lazy")
        if field not in written.model_fields_set and field in defaults.model_fields_set
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
    name: str, written: StdioEntry, environ: Mapping[str, str], faults: list[Fault]
) -> ServerConfig:
    def text(key: str, value: str) -> str:
        if value != value.strip():
            faults.append(Fault(key, "begins or ends with white space, which is kept"))
        expanded, unset = expand(value, environ)
        faults.extend(Fault(key, _unset(variable)) for variable in unset)
        return expanded

    inherit = written.inherit_env
    return ServerConfig(
        name=name,
        reach=Launch(
            text("command", written.command),
            tuple(text(f"args.{at}", value) for at, value in enumerate(written.args)),
            {key: text(f"env.{key}", value) for key, value in written.env.items()},
            True if inherit is True else tuple(inherit or ()),
        ),
        timeout=_seconds(written.timeout, faults),
        sharing=written.sharing,
        tools=_choice(written.tools),
        prefix=written.prefix,
        always_load=written.always_load,
        max_concurrency=written.max_concurrency,
        lazy=written.lazy,
        disabled=written.disabled,
    )


def _unset(variable: str) -> str:
    return f"${{{variable}}} is not set and has no default: the text is kept as it is"


def _choice(written: ToolsEntry) -> ToolChoice:
    include = None if written.include is None else tuple(written.include)
    return ToolChoice(include, tuple(written.exclude), dict(written.rename))


def _seconds(milliseconds: int | None, faults: list[Fault]) -> float:
    if milliseconds is None:
        return CALL_SECONDS
    if milliseconds < _SHORTEST_TIMEOUT_MS:
        expected = f"expected at least {_SHORTEST_TIMEOUT_MS} milliseconds"
        faults.append(Fault("timeout", f"{expected}, got {milliseconds}: the default is used"))
        return CALL_SECONDS
    return milliseconds / 1000
