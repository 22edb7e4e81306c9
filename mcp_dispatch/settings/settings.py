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
from mcp_dispatch.settings.hook_scripts import scripts_named_by
from mcp_dispatch.settings.layers import (
    Layer,
    LayerKind,
    Sources,
    layers_of,
    ordered,
    user_config_dir,
)
from mcp_dispatch.settings.merge import Restrictions, RuleTestText
from mcp_dispatch.settings.models import DispatchSettings, PermissionMode
from mcp_dispatch.settings.parse import Kept, LayerFile, RuleText, read_layer
from mcp_dispatch.settings.problems import Problem, Severity
from mcp_dispatch.settings.read_file import Shelf, Text, read_text
from mcp_dispatch.settings.trust import (
    NOTHING_ASKED,
    Record,
    Standing,
    Trust,
    read_record,
    record_path,
    standing,
)
from mcp_dispatch.settings.trust_survey import Refusal, Survey, gated, survey

__all__ = [
    "FileState",
    "Kept",
    "Layer",
    "LayerKind",
    "RuleTestText",
    "RuleText",
    "Settings",
    "Source",
    "load",
    "user_config_dir",
]

_NOT_EVERYWHERE = ("hooks", "env", "mcpServers")
_WHY_WITHHELD = {
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
class Source:
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
    problems: tuple[Problem, ...] = ()
    files: tuple[Path, ...] = ()
    """Every file of every layer, there or not: one that is missing can be made."""

    hook_scripts: tuple[Path, ...] = ()
    """Files that hook commands name, also those of hooks that are off."""

    hooks: tuple[Kept, ...] = ()
    http_hook_urls: tuple[str, ...] | None = None
    http_hook_variables: tuple[str, ...] | None = None
    env: tuple[Kept, ...] = ()
    mcp_servers: tuple[Kept, ...] = ()
    restrictions: Restrictions = field(default_factory=Restrictions)
    rule_tests: tuple[RuleTestText, ...] = ()
    sources: tuple[Source, ...] = ()
    standing: Standing = NOTHING_ASKED
    managed_rules_only: bool = False
    """Allow rules of files that are not managed count for nothing."""

    approved_definitions: Mapping[str, str] = field(default_factory=lambda: {})
    """Which definition of an upstream tool an allow rule of the user's own file was given to."""

    refused: tuple[Refusal, ...] = ()
    """What the workspace asks for and no workspace can have."""

    @property
    def environment(self) -> dict[str, str]:
        """What `env` of all files sets: the highest file that names a variable decides."""
        layers = [cast("dict[str, str]", each.value) for each in reversed(self.env)]
        return {name: value for layer in layers for name, value in layer.items()}

    def mode_with(self, flag: PermissionMode | None) -> PermissionMode:
        """The mode that holds where a flag names one."""
        mode = flag or self.mode
        bypass = mode is PermissionMode.BYPASS_PERMISSIONS
        return PermissionMode.DEFAULT if bypass and self.bypass_disabled else mode


def load(
    layers: Sequence[Layer],
    *,
    supported: frozenset[str] = frozenset(),
    record: Record | None = None,
    root: Path | None = None,
    shelf: Shelf | None = None,
) -> Settings:
    """Merges the files that exist: lists concatenated, scalars by the highest layer.

    `supported` names the keys among hooks, env and mcpServers that the caller gives effect to;
    the others are reported where a file has them. `record` is what a person has trusted of the
    workspace at `root`. A file that has become unreadable since `shelf` kept it holds as it was.
    Raises `ConfigError` for a file that a person named, or that is managed, and cannot be read.
    """
    problems: list[Problem] = []
    looked = [(layer, *_text(layer, shelf or Shelf(), problems)) for layer in ordered(layers)]
    read = [read_layer(layer, text, problems) for layer, _, text in looked if text is not None]
    found = survey(file for file in read if file.layer.of_workspace)
    stand = standing(record, found, (each.path for each in layers if each.of_workspace))
    files = [gated(file, stand.granted) if file.layer.of_workspace else file for file in read]
    problems += [*_of_trust(stand, root), *map(_of_refusal, found.refused)]
    problems += [*merge.misplaced(read), *_not_supported(files, supported)]
    return Settings(
        rules=merge.rules_of(files),
        mode=merge.mode_of(files, problems),
        additional_directories=merge.directories_of(files, root, problems),
        # These only tighten: one file that asks for it is enough.
        block_reads_outside=any(
            file.permissions.block_reads_outside_working_directories for file in files
        ),
        block_writes_outside=any(
            file.permissions.block_writes_outside_working_directories for file in files
        ),
        deny_instead_of_prompting=any(file.permissions.deny_instead_of_prompting for file in files),
        bypass_disabled=merge.bypass_disabled(files),
        managed_rules_only=merge.managed_rules_only(files),
        approved_definitions=merge.approved_definitions(files),
        dispatch=merge.dispatch_of(files),
        bash_output_max_chars=merge.bash_output_of(files),
        hooks=merge.hooks_of(files),
        http_hook_urls=merge.hook_list_of(files, "allowedHttpHookUrls"),
        http_hook_variables=merge.hook_list_of(files, "httpHookAllowedEnvVars"),
        env=merge.env_of(files, problems),
        mcp_servers=merge.kept_of(files, "mcpServers"),
        restrictions=merge.restrictions_of(files),
        rule_tests=tuple(merge.rule_tests_of(files)),
        files=tuple(dict.fromkeys(layer.path for layer, _, _ in looked)),
        hook_scripts=scripts_named_by(merge.kept_of(read, "hooks"), root),
        sources=tuple(Source(layer, state) for layer, state, _ in looked),
        standing=stand,
        refused=found.refused,
        problems=tuple(problems),
    )


def _text(layer: Layer, shelf: Shelf, problems: list[Problem]) -> tuple[FileState, Text | None]:
    """What the file says. One that must be there and never could be read stops everything."""
    text = read_text(layer.path, notes=layer.notes)
    if isinstance(text, Text):
        shelf.keep(layer.path, text)
        return FileState.READ, text
    must = layer.kind is LayerKind.FLAG
    if layer.kind is LayerKind.MANAGED:
        # A link that leads nowhere is there: somebody meant a file by it.
        must = text is not None or layer.path.is_symlink()
    if text is None and not must:
        shelf.forget(layer.path)
        return FileState.ABSENT, None
    reason = "no such file" if text is None else text.reason
    last = shelf.last(layer.path)
    if must and last is None:
        raise ConfigError(str(layer.path), "", reason)
    fate = "the whole file is ignored" if last is None else "what it said before stays in force"
    problems.append(Problem(Severity.ERROR, layer.path, "", f"{reason}; {fate}"))
    return (FileState.BROKEN, None) if last is None else (FileState.KEPT, last)


def _of_trust(stand: Standing, root: Path | None) -> Iterator[Problem]:
    """One line for each file of which something is off."""
    place = shlex.quote(str(root)) if root else "DIR"
    for file, count in Counter(entry.file for entry in stand.withheld).items():
        what = "1 entry has" if count == 1 else f"{count} entries have"
        message = (
            f"{what} no effect: {_WHY_WITHHELD[stand.trust]}; look at it with "
            f"`mcp-dispatch trust {place}`"
        )
        yield Problem(Severity.WARNING, file, "", message)


def _of_refusal(refusal: Refusal) -> Problem:
    entry = refusal.entry
    message = f"{refusal.reason}; it has no effect"
    return Problem(Severity.WARNING, entry.file, entry.key, message, entry.line)


def _not_supported(files: Iterable[LayerFile], supported: frozenset[str]) -> Iterator[Problem]:
    message = "not supported yet in settings files; it has no effect"
    for file in files:
        for key in _NOT_EVERYWHERE:
            if key not in supported and file.values.get(key):
                yield Problem(Severity.WARNING, file.layer.path, key, message)


class SettingsFiles:
    """Reads them again whenever asked, and remembers what they said when they last made sense."""

    def __init__(self, sources: Sources, *, supported: frozenset[str] = frozenset()) -> None:
        self._sources = sources
        self._supported = supported
        self._shelf = Shelf()

    def read(self, root: Path | None) -> Settings:
        """The settings for the workspace at the real path `root`. Raises as `load` does."""
        config_dir = self._sources.config_dir
        record, problems = read_record(config_dir, root) if root else (None, ())
        settings = load(
            layers_of(self._sources, root),
            supported=self._supported,
            record=record,
            root=root,
            shelf=self._shelf,
        )
        return replace(settings, problems=(*settings.problems, *problems))

    def watched(self, root: Path | None) -> tuple[Path, ...]:
        """What decides the settings, there or not."""
        try:
            layers = [layer.path for layer in layers_of(self._sources, root)]
        except ConfigError:
            layers = []  # reading them again will say why; what was read stays in force
        records = [record_path(self._sources.config_dir, root)] if root else []
        return (*layers, *records, self._sources.managed_dir / "settings.d")


def workspace_layers(sources: Sources, root: Path) -> list[Layer]:
    return [layer for layer in layers_of(sources, root) if layer.of_workspace]


def survey_layers(layers: list[Layer]) -> tuple[Survey, list[Problem]]:
    """What the files of a workspace ask for, as they are now."""
    problems: list[Problem] = []
    files: list[LayerFile] = []
    for layer in layers:
        text = read_text(layer.path)
        if isinstance(text, Text):
            files.append(read_layer(layer, text, problems))
        elif text is not None:
            message = f"{text.reason}; the whole file is ignored"
            problems.append(Problem(Severity.ERROR, layer.path, "", message))
    return survey(files), problems
