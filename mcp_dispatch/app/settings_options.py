"""The flags that decide the settings, and the policy that follows from them.

`explain` imports this module, so it imports neither the MCP SDK nor anyio.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from platformdirs import user_state_dir

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.settings.layers import MANAGED_DIR, SettingsSources, build_sources
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import Settings, SettingsReader

_SUPPORTED_KEYS = frozenset({"hooks", "env", "mcpServers"})


@dataclass(frozen=True, slots=True)
class SettingsOptions:
    """The flags of `serve` that decide which settings are read and how rules are applied."""

    workspace: Path | None = None
    settings: tuple[Path, ...] = ()
    mcp_config: tuple[Path, ...] = ()
    state_dir: Path | None = None
    permission_mode: PermissionMode | None = None
    claude_settings: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    managed_dir: Path = MANAGED_DIR

    @property
    def sources(self) -> SettingsSources:
        return build_sources(
            self.environ,
            self.settings,
            include_claude=self.claude_settings,
            managed_dir=self.managed_dir,
        )

    @property
    def state_path(self) -> Path:
        """The absolute path of the state directory, which may not exist yet."""
        path = self.state_dir or Path(user_state_dir("mcp-dispatch", appauthor=False))
        return Path(os.path.abspath(path.expanduser()))  # noqa: PTH100  (links keep their names)

    def create_settings_reader(self) -> SettingsReader:
        return SettingsReader(self.sources, supported=_SUPPORTED_KEYS)


def build_policy(
    options: SettingsOptions, settings: Settings, workspace: Workspace, state_path: Path
) -> Policy:
    """Build the policy of `settings`. Every command judges calls by the result of this function."""
    return Policy(
        settings,
        workspace.directories,
        own_directories=(state_path, options.sources.config_dir),
        mode=settings.permissions.resolve_mode(options.permission_mode),
        protected_files=[Path.cwd() / path.expanduser() for path in options.mcp_config],
    )


def add_directories(workspace: Workspace, settings: Settings) -> tuple[Workspace, list[str]]:
    """Return `workspace` with the directories that settings add, and a problem for each skipped."""
    found: list[Path] = []
    problems: list[str] = []
    for path in settings.permissions.additional_directories:
        try:
            found += workspace.with_directories([path]).additional
        except Refused as refused:
            problems.append(f"permissions.additionalDirectories: {refused}; it is skipped")
    return replace(workspace, additional=tuple(found)), problems
