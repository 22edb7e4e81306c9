"""Loads all settings files into one frozen `Settings`."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.settings import merge
from mcp_dispatch.settings.groups import (
    HookSettings,
    PermissionSettings,
    ProcessSettings,
    RuleSettings,
    RuleTestText,
    ServerSettings,
)
from mcp_dispatch.settings.hook_scripts import find_hook_scripts
from mcp_dispatch.settings.layers import (
    Layer,
    LayerKind,
    SettingsSources,
    find_user_config_dir,
    list_layers,
    sort_layers,
)
from mcp_dispatch.settings.models import DispatchSettings
from mcp_dispatch.settings.parse import LayerFile, RawSection, RuleText, parse_layer
from mcp_dispatch.settings.problems import SettingsProblem, Severity
from mcp_dispatch.settings.read_file import LastGoodFiles, ParsedFile, read_json_file
from mcp_dispatch.settings.trust import (
    TRUST_NOT_NEEDED,
    Trust,
    TrustRecord,
    TrustStatus,
    evaluate_trust,
    locate_record,
    read_record,
)
from mcp_dispatch.settings.trust_survey import (
    RefusedEntry,
    TrustSurvey,
    filter_granted,
    inspect_files,
)

__all__ = [
    "FileState",
    "HookSettings",
    "Layer",
    "LayerKind",
    "LayerStatus",
    "PermissionSettings",
    "ProcessSettings",
    "RawSection",
    "RuleSettings",
    "RuleTestText",
    "RuleText",
    "ServerSettings",
    "Settings",
    "SettingsReport",
    "find_user_config_dir",
    "load_settings",
]

_OPTIONAL_KEYS = ("hooks", "env", "mcpServers")
_WITHHELD_REASONS = {
    Trust.UNTRUSTED: "the workspace is not trusted",
    Trust.CHANGED: "the workspace was trusted without it",
    Trust.LOOSENED: "rules or hooks that stood when the workspace was trusted are gone",
}


class FileState(Enum):
    """The result of reading a layer's file."""

    ABSENT = "absent"
    READ = "read"
    BROKEN = "ignored"
    KEPT = "kept"
    """The file is invalid now; its last valid content stays in force."""


@dataclass(frozen=True, slots=True)
class LayerStatus:
    """The file of one layer and the result of reading it."""

    layer: Layer
    state: FileState


@dataclass(frozen=True, slots=True)
class SettingsReport:
    """What loading found: the files, what became of them, and everything that has no effect."""

    files: tuple[Path, ...] = ()
    """Every file of every layer, also those that do not exist: a missing one can be created."""

    layer_statuses: tuple[LayerStatus, ...] = ()
    trust_status: TrustStatus = TRUST_NOT_NEEDED
    refused: tuple[RefusedEntry, ...] = ()
    """Entries of the workspace that no workspace may set, trusted or not."""

    problems: tuple[SettingsProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """All layers merged, highest first. Of a workspace's files it holds only trusted entries and
    those that tighten."""

    rules: RuleSettings = field(default_factory=RuleSettings)
    permissions: PermissionSettings = field(default_factory=PermissionSettings)
    hooks: HookSettings = field(default_factory=HookSettings)
    servers: ServerSettings = field(default_factory=ServerSettings)
    processes: ProcessSettings = field(default_factory=ProcessSettings)
    dispatch: DispatchSettings = field(default_factory=DispatchSettings)
    report: SettingsReport = field(default_factory=SettingsReport)

    def add_problems(self, problems: Iterable[SettingsProblem]) -> "Settings":
        found = (*self.report.problems, *problems)
        return replace(self, report=replace(self.report, problems=found))


def load_settings(
    layers: Sequence[Layer],
    *,
    supported: frozenset[str] = frozenset(),
    record: TrustRecord | None = None,
    root: Path | None = None,
    last_good: LastGoodFiles | None = None,
) -> Settings:
    """Merge the files that exist: lists are concatenated, scalars come from the highest layer.

    `supported` names the keys among hooks, env and mcpServers that the caller gives effect to;
    the others are reported where a file has them. `record` holds the trusted entries of the
    workspace at `root`. If a file has become invalid, its content in `last_good` stays in force.
    Raise `ConfigError` for a managed or `--settings` file that cannot be read.
    """
    problems: list[SettingsProblem] = []
    looked = [
        (layer, *_read_layer_file(layer, last_good or LastGoodFiles(), problems))
        for layer in sort_layers(layers)
    ]
    read = [parse_layer(layer, text, problems) for layer, _, text in looked if text is not None]
    found = inspect_files(file for file in read if file.layer.is_workspace_layer)
    stand = evaluate_trust(record, found, (each.path for each in layers if each.is_workspace_layer))
    files = [
        filter_granted(file, stand.granted) if file.layer.is_workspace_layer else file
        for file in read
    ]
    problems += [*_report_withheld_entries(stand, root), *map(_report_refusal, found.refused)]
    problems += [*merge.find_misplaced_keys(read), *_find_unsupported_keys(files, supported)]
    # The order of these calls is the order in which their problems are reported.
    permissions = merge.merge_permissions(files, root, problems)
    processes = merge.merge_processes(files, problems)
    return Settings(
        rules=merge.merge_rules(files),
        permissions=permissions,
        hooks=merge.merge_hooks(
            files, find_hook_scripts(merge.collect_sections(read, "hooks"), root)
        ),
        servers=merge.merge_servers(files),
        processes=processes,
        dispatch=merge.merge_dispatch(files),
        report=SettingsReport(
            files=tuple(dict.fromkeys(layer.path for layer, _, _ in looked)),
            layer_statuses=tuple(LayerStatus(layer, state) for layer, state, _ in looked),
            trust_status=stand,
            refused=found.refused,
            problems=tuple(problems),
        ),
    )


def _read_layer_file(
    layer: Layer, last_good: LastGoodFiles, problems: list[SettingsProblem]
) -> tuple[FileState, ParsedFile | None]:
    """Read the file of one layer. Raise `ConfigError` if it is required and was never valid."""
    text = read_json_file(layer.path, is_state_file=layer.is_state_file)
    if isinstance(text, ParsedFile):
        last_good.store(layer.path, text)
        return FileState.READ, text
    must = layer.kind is LayerKind.FLAG
    if layer.kind is LayerKind.MANAGED:
        # A dangling link counts as a file: the administrator meant one to be there.
        must = text is not None or layer.path.is_symlink()
    if text is None and not must:
        last_good.forget(layer.path)
        return FileState.ABSENT, None
    reason = "no such file" if text is None else text.reason
    last = last_good.find(layer.path)
    if must and last is None:
        raise ConfigError(str(layer.path), "", reason)
    fate = "the whole file is ignored" if last is None else "what it said before stays in force"
    problems.append(SettingsProblem(Severity.ERROR, layer.path, "", f"{reason}; {fate}"))
    return (FileState.BROKEN, None) if last is None else (FileState.KEPT, last)


def _report_withheld_entries(status: TrustStatus, root: Path | None) -> Iterator[SettingsProblem]:
    """Yield one problem for each file with entries that are not trusted."""
    place = shlex.quote(str(root)) if root else "DIR"
    for file, count in Counter(entry.file for entry in status.withheld).items():
        what = "1 entry has" if count == 1 else f"{count} entries have"
        message = (
            f"{what} no effect: {_WITHHELD_REASONS[status.trust]}; look at it with "
            f"`mcp-dispatch trust {place}`"
        )
        yield SettingsProblem(Severity.WARNING, file, "", message)


def _report_refusal(refusal: RefusedEntry) -> SettingsProblem:
    entry = refusal.entry
    message = f"{refusal.reason}; it has no effect"
    return SettingsProblem(Severity.WARNING, entry.file, entry.key, message, entry.line)


def _find_unsupported_keys(
    files: Iterable[LayerFile], supported: frozenset[str]
) -> Iterator[SettingsProblem]:
    message = "not supported yet in settings files; it has no effect"
    for file in files:
        for key in _OPTIONAL_KEYS:
            if key not in supported and file.values.get(key):
                yield SettingsProblem(Severity.WARNING, file.layer.path, key, message)


class SettingsReader:
    """Reads the settings files on request and remembers the last valid content of each."""

    def __init__(
        self, sources: SettingsSources, *, supported: frozenset[str] = frozenset()
    ) -> None:
        self._sources = sources
        self._supported = supported
        self._last_good = LastGoodFiles()

    def read(self, root: Path | None) -> Settings:
        """Return the settings for the workspace at the real path `root`. Raises like `load_settings`."""
        config_dir = self._sources.config_dir
        record, problems = read_record(config_dir, root) if root else (None, ())
        settings = load_settings(
            list_layers(self._sources, root),
            supported=self._supported,
            record=record,
            root=root,
            last_good=self._last_good,
        )
        return settings.add_problems(problems)

    def list_watched_files(self, root: Path | None) -> tuple[Path, ...]:
        """Return all files that affect the settings, including missing ones."""
        try:
            layers = [layer.path for layer in list_layers(self._sources, root)]
        except ConfigError:
            layers = []  # the next read reports the error; the current settings stay in force
        records = [locate_record(self._sources.config_dir, root)] if root else []
        return (*layers, *records, self._sources.managed_dir / "settings.d")


def list_workspace_layers(sources: SettingsSources, root: Path) -> list[Layer]:
    return [layer for layer in list_layers(sources, root) if layer.is_workspace_layer]


def inspect_layers(layers: list[Layer]) -> tuple[TrustSurvey, list[SettingsProblem]]:
    """Return what the files of a workspace currently request."""
    problems: list[SettingsProblem] = []
    files: list[LayerFile] = []
    for layer in layers:
        text = read_json_file(layer.path)
        if isinstance(text, ParsedFile):
            files.append(parse_layer(layer, text, problems))
        elif text is not None:
            message = f"{text.reason}; the whole file is ignored"
            problems.append(SettingsProblem(Severity.ERROR, layer.path, "", message))
    return inspect_files(files), problems
