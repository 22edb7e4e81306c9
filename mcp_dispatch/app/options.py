"""The options of the application."""

import logging
import shlex
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.app.settings_options import SettingsOptions
from mcp_dispatch.approval.approver import APPROVALS_COMMAND, AskFallback
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.settings.layers import find_claude_config_dir

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AppOptions(SettingsOptions):
    ask_fallback: AskFallback = AskFallback.DENY
    owns_process: bool = False
    """Whether only the server runs in this process, so that it may adopt orphaned processes."""

    offline: bool = False
    """Start no upstream server: use the cached tool lists."""

    def format_approvals_command(self, state: StateDirectory) -> str:
        """Return the command that a person types to answer questions of this server."""
        if self.state_dir is None:
            return APPROVALS_COMMAND
        return f"{APPROVALS_COMMAND} --state-dir {shlex.quote(str(state.path))}"

    def log_unread_claude_settings(self, root: Path | None) -> None:
        """Log which settings of Claude Code exist and are not read without the flag."""
        folders = [find_claude_config_dir(self.environ), *([root / ".claude"] if root else [])]
        files = [
            folder / name for folder in folders for name in ("settings.json", "settings.local.json")
        ]
        found = [str(file) for file in files if file.is_file()]
        if found and not self.claude_settings:
            logger.info("not read without --claude-settings: %s", ", ".join(found))
