"""Settings files to one frozen `Settings`: layers merged, every rule with its file and line."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import cast

from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.settings import merge
from mcp_dispatch.settings.hook_scripts import find_hook_scripts
from mcp_dispatch.settings.layers import (
    Layer,
    LayerKind,
    SettingsSources,
    find_user_config_dir,
    list_layers,
    sort_layers,
)
from mcp_dispatch.settings.merge import Restrictions, RuleTestText
from mcp_dispatch.settings.models import DispatchSettings, PermissionMode
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
    "Layer",
    "LayerKind",
    "LayerStatus",
    "RawSection",
    "RuleTestText",
    "RuleText",
    "Settings",
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
    """What became of a layer's file."""

    ABSENT = "absent"
    READ = "read"
    BROKEN = "ignored"
    KEPT = "kept"
    """It makes no sense any more; what it said before stays in force."""


@dataclass(frozen=True, slots=True)
class LayerStatus:
    """One file that was looked for."""

    layer: Layer
    state: FileState


@dataclass(frozen=True, slots=True)
class Settings:
    """All layers together, highest first; of a workspace's files only what they may decide."""

    rules: tuple[RuleText, ...] = ()
    mode: PermissionMode = PermissionMode.DEFAULT
    additional_directories: tuple[Path, ...] = ()
    block_reads_outside: bool = False
    block_writes_outside: bool = False
    deny_instead_of_prompting: bool = False
    bypass_disabled: bool = False
    dispatch: DispatchSettings = field(default_factory=DispatchSettings)
    bash_output_max_chars: int | None = None
    problems: tuple[SettingsProblem, ...] = ()
    files: tuple[Path, ...] = ()
    """Every file of every layer, there or not: one that is missing can be made."""

    hook_scripts: tuple[Path, ...] = ()
    """Files that hook commands name, also those of hooks that are off."""

    hooks: tuple[RawSection, ...] = ()
    http_hook_urls: tuple[str, ...] | None = None
    http_hook_variables: tuple[str, ...] | None = None
    env: tuple[RawSection, ...] = ()
    mcp_servers: tuple[RawSection, ...] = ()
    restrictions: Restrictions = field(default_factory=Restrictions)
    rule_tests: tuple[RuleTestText, ...] = ()
    layer_statuses: tuple[LayerStatus, ...] = ()
    trust_status: TrustStatus = TRUST_NOT_NEEDED
    managed_rules_only: bool = False
    """Allow rules of files that are not managed count for nothing."""

    approved_definitions: Mapping[str, str] = field(default_factory=lambda: {})
    """Which definition of an upstream tool an allow rule of the user's own file was given to."""

    refused: tuple[RefusedEntry, ...] = ()
    """What the workspace asks for and no workspace can have."""

    @property
    def environment(self) -> dict[str, str]:
        """What `env` of all files sets: the highest file that names a variable decides."""
        layers = [cast("dict[str, str]", each.value) for each in reversed(self.env)]
        return {name: value for layer in layers for name, value in layer.items()}

    def resolve_mode(self, flag: PermissionMode | None) -> PermissionMode:
        """The mode that holds where a flag names one."""
        mode = flag or self.mode
        bypass = mode is PermissionMode.BYPASS_PERMISSIONS
        return PermissionMode.DEFAULT if bypass and self.bypass_disabled else mode


def load_settings(
    layers: Sequence[Layer],
    *,
    supported: frozenset[str] = frozenset(),
    record: TrustRecord | None = None,
    root: Path | None = None,
    last_good: LastGoodFiles | None = None,
) -> Settings:
    """Merges the files that exist: lists concatenated, scalars by the highest layer.

    `supported` names the keys among hooks, env and mcpServers that the caller gives effect to;
    the others are reported where a file has them. `record` is what a person has trusted of the
    workspace at `root`. A file that has become unreadable since `shelf` kept it holds as it was.
    Raises `ConfigError` for a file that a person named, or that is managed, and cannot be read.
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
    return Settings(
        rules=merge.merge_rules(files),
        mode=merge.choose_mode(files, problems),
        additional_directories=merge.collect_directories(files, root, problems),
        # These only tighten: one file that asks for it is enough.
        block_reads_outside=any(
            file.permissions.block_reads_outside_working_directories for file in files
        ),
        block_writes_outside=any(
            file.permissions.block_writes_outside_working_directories for file in files
        ),
        deny_instead_of_prompting=any(file.permissions.deny_instead_of_prompting for file in files),
        bypass_disabled=merge.is_bypass_disabled(files),
        managed_rules_only=merge.has_managed_rules_only(files),
        approved_definitions=merge.collect_approved_definitions(files),
        dispatch=merge.merge_dispatch(files),
        bash_output_max_chars=merge.choose_bash_output_limit(files),
        hooks=merge.collect_hooks(files),
        http_hook_urls=merge.merge_hook_list(files, "allowedHttpHookUrls"),
        http_hook_variables=merge.merge_hook_list(files, "httpHookAllowedEnvVars"),
        env=merge.collect_env(files, problems),
        mcp_servers=merge.collect_sections(files, "mcpServers"),
        restrictions=merge.merge_restrictions(files),
        rule_tests=tuple(merge.collect_rule_tests(files)),
        files=tuple(dict.fromkeys(layer.path for layer, _, _ in looked)),
        hook_scripts=find_hook_scripts(merge.collect_sections(read, "hooks"), root),
        layer_statuses=tuple(LayerStatus(layer, state) for layer, state, _ in looked),
        trust_status=stand,
        refused=found.refused,
        problems=tuple(problems),
    )


def _read_layer_file(
    layer: Layer, last_good: LastGoodFiles, problems: list[SettingsProblem]
) -> tuple[FileState, ParsedFile | None]:
    """What the file says. One that must be there and never could be read stops everything."""
    text = read_json_file(layer.path, is_state_file=layer.is_state_file)
    if isinstance(text, ParsedFile):
        last_good.store(layer.path, text)
        return FileState.READ, text
    must = layer.kind is LayerKind.FLAG
    if layer.kind is LayerKind.MANAGED:
        # A link that leads nowhere is there: somebody meant a file by it.
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
    """One line for each file of which something is off."""
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
    """Reads them again whenever asked, and remembers what they said when they last made sense."""

    def __init__(
        self, sources: SettingsSources, *, supported: frozenset[str] = frozenset()
    ) -> None:
        self._sources = sources
        self._supported = supported
        self._last_good = LastGoodFiles()

    def read(self, root: Path | None) -> Settings:
        """The settings for the workspace at the real path `root`. Raises as `load` does."""
        config_dir = self._sources.config_dir
        record, problems = read_record(config_dir, root) if root else (None, ())
        settings = load_settings(
            list_layers(self._sources, root),
            supported=self._supported,
            record=record,
            root=root,
            last_good=self._last_good,
        )
        return replace(settings, problems=(*settings.problems, *problems))

    def list_watched_files(self, root: Path | None) -> tuple[Path, ...]:
        """What decides the settings, there or not."""
        try:
            layers = [layer.path for layer in list_layers(self._sources, root)]
        except ConfigError:
            layers = []  # reading them again will say why; what was read stays in force
        records = [locate_record(self._sources.config_dir, root)] if root else []
        return (*layers, *records, self._sources.managed_dir / "settings.d")


def list_workspace_layers(sources: SettingsSources, root: Path) -> list[Layer]:
    return [layer for layer in list_layers(sources, root) if layer.is_workspace_layer]


def inspect_layers(layers: list[Layer]) -> tuple[TrustSurvey, list[SettingsProblem]]:
    """What the files of a workspace ask for, as they are now."""
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
