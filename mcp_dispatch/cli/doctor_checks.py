"""The checks of `doctor`: files, trust, rules, directories and programs. They start nothing."""

import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mcp_dispatch import __version__
from mcp_dispatch.app.settings_options import SettingsOptions, add_directories, build_policy
from mcp_dispatch.fs.safe_open import FileError
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.hooks.config import HookSource, parse_hooks
from mcp_dispatch.model.errors import StartError
from mcp_dispatch.model.names import build_rule_name
from mcp_dispatch.policy.known_tools import BUILT_IN_TOOLS
from mcp_dispatch.policy.rules.conditions import HookConditions
from mcp_dispatch.policy.rules.examples import run_rule_tests
from mcp_dispatch.registry.names import Naming, NamingStyle, build_exposed_name
from mcp_dispatch.settings.models import NamingSettings, PermissionMode
from mcp_dispatch.settings.problems import SettingsProblem, Severity
from mcp_dispatch.settings.settings import FileState, Settings
from mcp_dispatch.tools.search.ripgrep import find_ripgrep
from mcp_dispatch.upstream.cache import CatalogueCache, ServerSnapshot
from mcp_dispatch.upstream.config.model import ServerConfig, StdioEndpoint
from mcp_dispatch.upstream.config.select import ServerFile, ServerFiles, select_servers
from mcp_dispatch.upstream.sanitize import to_one_line
from mcp_dispatch.upstream.transports.process import build_child_environment

_FORMER_DEMO_MODULE = "mcp_dispatch.demo_upstream"
_DEMO_MODULE = "mcp_dispatch.demo.upstream"


def find_missing_programs(
    servers: Sequence[ServerConfig], environ: Mapping[str, str], root: Path | None
) -> Iterator[str]:
    """Yield a problem for each server whose program is missing."""
    for server in servers:
        if isinstance(server.endpoint, StdioEndpoint) and not server.disabled:
            path = build_child_environment(server.endpoint, environ).get("PATH", "")
            command = server.endpoint.command
            program = str((root or Path.cwd()) / command) if "/" in command else command
            if shutil.which(program, path=path) is None:
                yield (
                    f"{server.file}: mcpServers.{server.name}.command: no program {command!r} can "
                    "be found; install it, or name it by its whole path"
                )


def find_moved_modules(servers: Sequence[ServerConfig]) -> Iterator[str]:
    """Yield a problem for each server that starts a module of ours by its former name."""
    for server in servers:
        endpoint = server.endpoint
        if isinstance(endpoint, StdioEndpoint) and _FORMER_DEMO_MODULE in endpoint.args:
            yield (
                f"{server.file}: mcpServers.{server.name}.args: {_FORMER_DEMO_MODULE} is now "
                f"{_DEMO_MODULE}; change the entry"
            )


def find_cached_problems(
    servers: Sequence[ServerConfig], state_dir: Path, naming: NamingSettings
) -> Iterator[str]:
    """Yield cached problems: failures, changed definitions, rejected tools and name clashes."""
    cache = CatalogueCache(state_dir / "catalogue")
    snapshots = [(server, cache.load(server.key) or ServerSnapshot()) for server in servers]
    for server, snapshot in snapshots:
        if snapshot.problem is not None:
            log = state_dir / "logs" / f"{server.name}.stderr.log"
            yield f"server {server.name}: when it was last tried it {snapshot.problem}; see {log}"
        for change in snapshot.changes:
            day = datetime.fromtimestamp(change.at, UTC).strftime("%Y-%m-%d")
            details = "; ".join(map(to_one_line, change.what))
            yield f"server {server.name}: {to_one_line(change.tool)} changed on {day}: {details}"
        for tool, reason in snapshot.refused:
            yield f"server {server.name}: {to_one_line(tool)} is held back: its inputSchema {reason}"
    yield from _find_name_clashes(snapshots, naming)


def _find_name_clashes(
    cached: Sequence[tuple[ServerConfig, ServerSnapshot]], settings: NamingSettings
) -> Iterator[str]:
    naming = Naming(NamingStyle(settings.style), settings.max_length, BUILT_IN_TOOLS)
    owners: dict[str, str] = {}
    for server, snapshot in cached:
        for name in sorted(str(tool.get("name")) for tool in snapshot.tools):
            exposed = build_exposed_name(
                server.name, server.tools.rename.get(name, name), naming, server.prefix
            )
            rule = build_rule_name(server.name, name)
            owner = owners.setdefault(exposed, rule)
            if owner != rule:
                yield f"{rule} is not listed: {owner} has the name {exposed}; call it as {rule}"


@dataclass(frozen=True, slots=True)
class Finding:
    """An error makes a setting ineffective; a warning deserves attention."""

    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The result of all checks. `settings` is None if a server could not start."""

    versions: Mapping[str, str]
    programs: Mapping[str, str | None]
    config_dir: Path
    state_dir: Path
    workspace: Path | None
    mode: PermissionMode
    settings: Settings | None
    findings: tuple[Finding, ...]

    def list_texts(self, severity: Severity) -> list[str]:
        chosen = (each.text for each in self.findings if each.severity is severity)
        return list(dict.fromkeys(chosen))


def run_checks(options: SettingsOptions) -> DoctorReport:
    """Check what a server with the same flags would read. A start error is a finding, too."""
    state_dir, config_dir = options.state_path, options.sources.config_dir
    programs = _find_programs(options.environ)
    findings = [*_check_programs(programs), *_check_directories(state_dir, config_dir)]
    workspace, settings = Workspace(None), None
    try:
        workspace = Workspace.choose(options.workspace, (), Path.cwd())
        settings = options.create_settings_reader().read(workspace.root)
    except StartError as error:
        findings.append(_to_error(error))
    findings += _check_servers(options, settings or Settings(), workspace)
    mode = options.permission_mode or PermissionMode.DEFAULT
    if settings is not None:
        mode = settings.permissions.resolve_mode(options.permission_mode)
        findings += _check_settings(settings, workspace)
        findings += _check_rules(options, settings, workspace)
    return DoctorReport(
        versions=_collect_versions(),
        programs=programs,
        config_dir=config_dir,
        state_dir=state_dir,
        workspace=workspace.root,
        mode=mode,
        settings=settings,
        findings=tuple(findings),
    )


def _collect_versions() -> dict[str, str]:
    versions = {"mcp-dispatch": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    try:
        versions["mcp"] = version("mcp")
    except PackageNotFoundError:
        versions["mcp"] = "missing"
    return {**versions, "platform": sys.platform}


def _find_programs(environ: Mapping[str, str]) -> dict[str, str | None]:
    path = environ.get("PATH", "")
    try:
        ripgrep = find_ripgrep(path)
    except FileError:
        ripgrep = None
    return {"bash": shutil.which("bash", path=path), "ripgrep": ripgrep}


def _check_programs(programs: Mapping[str, str | None]) -> Iterator[Finding]:
    needs = {"bash": "the Bash tool", "ripgrep": "the Grep tool"}
    for name, path in programs.items():
        if path is None:
            yield _to_warning(f"{name} was not found; {needs[name]} needs it")


def _check_directories(state_dir: Path, config_dir: Path) -> Iterator[Finding]:
    """Check access: writers of these directories control the rules, readers see results."""
    yield from _check_permissions(config_dir, "the config directory")
    yield from _check_permissions(config_dir / "trust", "the record of trust")
    yield from _check_permissions(state_dir, "the state directory", secret=True)


def _check_permissions(path: Path, name: str, *, secret: bool = False) -> Iterator[Finding]:
    if sys.platform == "win32":
        return
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        yield _to_error(f"{name} {path}: {error.strerror}")
        return
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (os.geteuid(), 0):
        yield _to_error(f"{name} {path}: it belongs to another user")
    if mode & stat.S_IWOTH:
        yield _to_error(f"{name} {path}: everybody can write it; run chmod o-w")
    elif mode & stat.S_IWGRP:
        yield _to_warning(f"{name} {path}: its group can write it; run chmod g-w")
    if secret and mode & (stat.S_IRGRP | stat.S_IROTH):
        yield _to_warning(f"{name} {path}: others can read it; the server will close it")


def _check_servers(
    options: SettingsOptions, settings: Settings, workspace: Workspace
) -> Iterator[Finding]:
    environ = {**options.environ, **settings.processes.environment}
    files: list[ServerFile] = []
    for path in options.mcp_config:
        try:
            files.extend(ServerFiles([path]).read()[0])
        except StartError as error:
            yield _to_error(error)
    chosen = select_servers(files, settings, workspace.root, environ)
    yield from map(_to_warning, chosen.problems)
    yield from map(_to_error, find_missing_programs(chosen.servers, environ, workspace.root))
    yield from map(_to_error, find_moved_modules(chosen.servers))
    cached_problems = find_cached_problems(
        chosen.servers, options.state_path, settings.dispatch.naming
    )
    yield from map(_to_warning, cached_problems)


def _check_settings(settings: Settings, workspace: Workspace) -> Iterator[Finding]:
    yield from map(_to_finding, settings.report.problems)
    for source in settings.report.layer_statuses:
        # Files of the workspace need no private mode: they take effect only once trusted.
        if source.state is not FileState.ABSENT and not source.layer.is_workspace_layer:
            yield from _check_permissions(source.layer.path, "the settings file")
    sources = [HookSource(each.value, each.file) for each in settings.hooks.sections]
    _, problems = parse_hooks(
        sources, HookConditions(Path.home(), workspace.directories).find_fault
    )
    yield from map(_to_warning, problems)
    yield from map(_to_warning, add_directories(workspace, settings)[1])
    if workspace.root is None:
        yield _to_warning(f"no workspace: {workspace.unset_reason}; name one with --workspace DIR")


def _check_rules(
    options: SettingsOptions, settings: Settings, chosen: Workspace
) -> Iterator[Finding]:
    workspace, _ = add_directories(chosen, settings)
    policy = build_policy(options, settings, workspace, options.state_path)
    yield from map(_to_finding, policy.problems)
    failed = run_rule_tests(settings.rules.tests, policy, workspace)
    yield from (_to_finding(each.problem) for each in failed)


def _to_finding(problem: SettingsProblem) -> Finding:
    return Finding(problem.severity, str(problem))


def _to_error(text: object) -> Finding:
    return Finding(Severity.ERROR, str(text))


def _to_warning(text: object) -> Finding:
    return Finding(Severity.WARNING, str(text))
