"""Selects the servers that run from the entries of all configuration files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.groups import Restrictions
from mcp_dispatch.settings.layers import LayerKind, is_workspace_kind
from mcp_dispatch.settings.models import ServerMatch
from mcp_dispatch.settings.settings import RawSection, Settings
from mcp_dispatch.upstream.config.load import (
    RawServerEntry,
    ServerConfigProblem,
    describe_replacement,
    expand_variables,
    read_file_entries,
    read_servers,
)
from mcp_dispatch.upstream.config.model import ServerConfig

PROJECT_FILE = ".mcp.json"


@dataclass(frozen=True, slots=True)
class ServerFile:
    """The entries of one `--mcp-config` file."""

    file: Path
    entries: JsonObject


@dataclass(frozen=True, slots=True)
class SelectedServers:
    """The servers to run, in the order of the configuration, and problems to report."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[ServerConfigProblem | str, ...] = ()


class ServerFiles:
    """The `--mcp-config` files. If one becomes invalid at run time, its last valid state is used."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(Path.cwd() / path.expanduser() for path in paths)
        self._last_good: dict[Path, JsonObject] = {}

    def read(self) -> tuple[tuple[ServerFile, ...], tuple[str, ...]]:
        """Return the entries of the files, and problems.

        Raises `ConfigError` for a file that was never valid.
        """
        files: list[ServerFile] = []
        problems: list[str] = []
        for path in self.paths:
            try:
                self._last_good[path] = read_file_entries(path)
            except ConfigError as error:
                if path not in self._last_good:
                    raise
                problems.append(f"{error}; what it said before stays in force")
            files.append(ServerFile(path, self._last_good[path]))
        return tuple(files), tuple(problems)


def select_servers(
    files: Sequence[ServerFile], settings: Settings, root: Path | None, environ: Mapping[str, str]
) -> SelectedServers:
    """Merge the entries of all sources and return the servers that may run.

    An entry of a source with higher precedence replaces one of the same name as a whole: managed
    files first, then `--mcp-config` (later files first), then the other layers. Servers are in the
    order in which their names first occur. An invalid entry is left out and reported, even if it
    replaces a valid one.
    """
    problems: list[ServerConfigProblem] = []
    entries: dict[str, RawServerEntry] = {}
    for source in _iter_sources(files, settings, root):
        for name, entry, wins in source:
            before = entries.get(name)
            if before is None or wins:
                if before is not None:
                    problems.append(describe_replacement(name, entry.file, before.file))
                entries[name] = entry
            else:
                problems.append(describe_replacement(name, before.file, entry.file))
    running: dict[str, RawServerEntry] = {}
    for name, entry in entries.items():
        reason = _find_block_reason(name, entry, settings.servers.restrictions, environ)
        if reason is None:
            running[name] = entry
        else:
            problems.append(ServerConfigProblem(str(entry.file), f"mcpServers.{name}", reason))
    servers, faults = read_servers(running, environ, settings.dispatch.upstreams)
    return SelectedServers(servers, (*problems, *faults))


_SourceEntries = Iterator[tuple[str, RawServerEntry, bool]]


def _iter_sources(
    files: Sequence[ServerFile], settings: Settings, root: Path | None
) -> Iterator[_SourceEntries]:
    """Yield the entries of each source, and whether an entry replaces an earlier one."""
    managed = [each for each in settings.servers.sections if each.layer is LayerKind.MANAGED]
    others = [each for each in settings.servers.sections if each.layer is not LayerKind.MANAGED]
    managed_names = {name for each in managed for name in each.value}
    yield from (_iter_layer(each, root) for each in managed)
    for each in files:
        yield (
            (name, RawServerEntry(each.file, value), name not in managed_names)
            for name, value in each.entries.items()
        )
    yield from (_iter_layer(each, root) for each in others)


def _iter_layer(section: RawSection, root: Path | None) -> _SourceEntries:
    workspace = root if is_workspace_kind(section.layer) else None
    return (
        (name, RawServerEntry(section.file, value, workspace), False)
        for name, value in section.value.items()
    )


def _find_block_reason(
    name: str, entry: RawServerEntry, restrictions: Restrictions, environ: Mapping[str, str]
) -> str | None:
    written = _EndpointText.from_entry(entry.value, {})
    expanded = _EndpointText.from_entry(entry.value, environ)
    if entry.file.name == PROJECT_FILE and name in restrictions.disabled:
        return "disabledMcpjsonServers names it; it is not started"
    if any(
        _matches_server(match, name, reach)
        for match in restrictions.denied
        for reach in (written, expanded)
    ):
        return "deniedMcpServers names it; it is not started"
    if restrictions.allowed is not None and not _is_allowed(restrictions.allowed, name, expanded):
        return "allowedMcpServers does not name it; it is not started"
    return None


@dataclass(frozen=True, slots=True)
class _EndpointText:
    """Command with arguments, or URL, with variables expanded from `environ`."""

    command: list[str] | None
    url: str | None

    @staticmethod
    def from_entry(value: Json, environ: Mapping[str, str]) -> "_EndpointText":
        written = value if isinstance(value, dict) else {}
        command, args, url = (written.get(key) for key in ("command", "args", "url"))
        words = [command, *(args if isinstance(args, list) else ())]
        texts = [expand_variables(each, environ)[0] for each in words if isinstance(each, str)]
        return _EndpointText(
            texts if isinstance(command, str) else None,
            expand_variables(url, environ)[0] if isinstance(url, str) else None,
        )


def _is_allowed(allowed: Sequence[ServerMatch], name: str, endpoint: _EndpointText) -> bool:
    """Return whether a server is allowed by command or URL, or else by name.

    If any command (or URL) is listed, a server of that kind must match one: a name alone is no
    protection, because any server can have an allowed name.
    """
    if endpoint.command is not None and any(match.server_command for match in allowed):
        return any(match.server_command == endpoint.command for match in allowed)
    if endpoint.url is not None and any(match.server_url for match in allowed):
        return any(match.server_url and _matches_server(match, name, endpoint) for match in allowed)
    return any(match.server_name == name for match in allowed)


def _matches_server(match: ServerMatch, name: str, endpoint: _EndpointText) -> bool:
    if match.server_name is not None:
        return match.server_name == name
    if match.server_command is not None:
        return match.server_command == endpoint.command
    return endpoint.url is not None and fnmatchcase(endpoint.url, match.server_url or "")
