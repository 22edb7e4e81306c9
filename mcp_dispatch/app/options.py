"""The flags that `serve` and its siblings share, and what follows from them alone."""

import logging
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcp_dispatch.approval.approver import APPROVALS_COMMAND, AskFallback
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.settings.layers import MANAGED_DIR, build_sources, find_claude_config_dir
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import SettingsReader

logger = logging.getLogger(__name__)

_SUPPORTED_KEYS = frozenset({"hooks", "env", "mcpServers"})


@dataclass(frozen=True, slots=True)
class AppOptions:
    workspace: Path | None = None
    settings: tuple[Path, ...] = ()
    mcp_config: tuple[Path, ...] = ()
    state_dir: Path | None = None
    permission_mode: PermissionMode | None = None
    claude_settings: bool = False
    ask_fallback: AskFallback = AskFallback.DENY
    owns_process: bool = False
    """Nothing but the server runs in this process: it may be the parent of orphans."""

    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    managed_dir: Path = MANAGED_DIR
    offline: bool = False
    """Start no server: what is known of them has to do."""

    def locate_settings_files(self) -> SettingsReader:
        sources = build_sources(
            self.environ,
            self.settings,
            include_claude=self.claude_settings,
            managed_dir=self.managed_dir,
        )
        return SettingsReader(sources, supported=_SUPPORTED_KEYS)

    def format_approvals_command(self, state: StateDirectory) -> str:
        """What a person types to answer questions of this very server."""
        named = self.state_dir is not None
        return (
            f"{APPROVALS_COMMAND} --state-dir {shlex.quote(str(state.path))}"
            if named
            else APPROVALS_COMMAND
        )

    def log_unread_claude_settings(self, root: Path | None) -> None:
        """Who has settings for Claude Code may believe that they hold here."""
        folders = [find_claude_config_dir(self.environ), *([root / ".claude"] if root else [])]
        files = [
            folder / name for folder in folders for name in ("settings.json", "settings.local.json")
        ]
        found = [str(file) for file in files if file.is_file()]
        if found and not self.claude_settings:
            logger.info("not read without --claude-settings: %s", ", ".join(found))
