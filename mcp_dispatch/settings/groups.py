"""Groups of merged settings: one frozen value for each subject."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json
from mcp_dispatch.settings.models import PermissionMode, ServerMatch
from mcp_dispatch.settings.parse import RawSection, RuleText


@dataclass(frozen=True, slots=True)
class RuleTestText:
    """An entry of `dispatch.ruleTests` as written, with its position."""

    call: Json
    expect: Effect
    file: Path
    line: int | None


@dataclass(frozen=True, slots=True)
class Restrictions:
    """Which servers may run. `disabled` names servers of a `.mcp.json`; a list of allowed servers
    leaves out every other one."""

    disabled: frozenset[str] = frozenset()
    denied: tuple[ServerMatch, ...] = ()
    allowed: tuple[ServerMatch, ...] | None = None


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """Permission rules of all files, highest first, and what belongs to them."""

    texts: tuple[RuleText, ...] = ()
    tests: tuple[RuleTestText, ...] = ()
    managed_only: bool = False
    """Allow rules of files that are not managed have no effect."""

    approved_definitions: Mapping[str, str] = field(default_factory=lambda: {})
    """For an allow rule in the user's own file, the digest of the tool definition it was given to."""


@dataclass(frozen=True, slots=True)
class PermissionSettings:
    """The mode, the directories, and switches that only tighten."""

    mode: PermissionMode = PermissionMode.DEFAULT
    additional_directories: tuple[Path, ...] = ()
    block_reads_outside: bool = False
    block_writes_outside: bool = False
    deny_instead_of_prompting: bool = False
    bypass_disabled: bool = False

    def resolve_mode(self, flag: PermissionMode | None) -> PermissionMode:
        """Return the mode of the flag if there is one, unless bypassing is disabled."""
        mode = flag or self.mode
        bypass = mode is PermissionMode.BYPASS_PERMISSIONS
        return PermissionMode.DEFAULT if bypass and self.bypass_disabled else mode


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The `hooks` objects that are switched on, and limits for all http hooks."""

    sections: tuple[RawSection, ...] = ()
    scripts: tuple[Path, ...] = ()
    """Files that hook commands name, including commands of hooks that are switched off."""

    http_urls: tuple[str, ...] | None = None
    http_variables: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The `mcpServers` objects, and which of their servers may run."""

    sections: tuple[RawSection, ...] = ()
    restrictions: Restrictions = field(default_factory=Restrictions)


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """What child processes get, and how much of a shell command's output is kept."""

    env: tuple[RawSection, ...] = ()
    bash_output_max_chars: int | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables that `env` of all files sets; the highest file wins."""
        layers = [cast("dict[str, str]", each.value) for each in reversed(self.env)]
        return {name: value for layer in layers for name, value in layer.items()}
