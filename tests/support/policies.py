"""Builds policies and calls for the tests of this folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import (
    LayerKind,
    RuleSettings,
    RuleText,
    Settings,
    SettingsReport,
)

ALLOW, ASK, DENY = Effect.ALLOW, Effect.ASK, Effect.DENY
SETTINGS = Path("/config/settings.json")


def rule(effect: Effect, text: str, line: int = 1, file: Path = SETTINGS) -> RuleText:
    return RuleText(effect, text, file, line, LayerKind.USER, file.parent)


@dataclass(frozen=True)
class Rules:
    """The three lists of a settings file."""

    allow: Sequence[str] = ()
    ask: Sequence[str] = ()
    deny: Sequence[str] = ()

    def texts(self) -> tuple[RuleText, ...]:
        lists = ((ALLOW, self.allow), (ASK, self.ask), (DENY, self.deny))
        every = [(effect, text) for effect, texts in lists for text in texts]
        return tuple(rule(effect, text, line) for line, (effect, text) in enumerate(every, start=1))


def policy(
    workspace: Path,
    rules: Rules | None = None,
    mode: PermissionMode = PermissionMode.DEFAULT,
    *,
    settings: Settings | None = None,
    home: Path = Path("/home/someone"),
) -> Policy:
    given = settings or Settings(
        rules=RuleSettings(texts=(rules or Rules()).texts()),
        report=SettingsReport(files=(SETTINGS,)),
    )
    return Policy(given, [workspace], [SETTINGS.parent, Path("/state")], mode, home=home)


def bash(command: str, cwd: Path | None) -> Subject:
    return Subject("Bash", "Bash", None, {"command": command}, {"command": command}, cwd)


def on_file(tool: str, path: Path | str, cwd: Path | None = None) -> Subject:
    return Subject(tool, tool, None, {"file_path": str(path)}, {"file_path": str(path)}, cwd)


def upstream(server: str, tool: str, *, exposed: str | None = None) -> Subject:
    name = f"mcp__{server}__{tool}"
    return Subject(name, exposed or f"{server}__{tool}", server, {}, {}, None)
