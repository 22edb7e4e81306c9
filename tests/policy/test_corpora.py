"""Labelled commands of other projects, evaluated with no rules in an empty workspace."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.policies import ALLOW, bash, policy

DISPUTED = {
    "git diff",
    "git diff | head -20",
    "git log -p -1",
    "-Command Get-Location",
    "'C:Program FilesPowerShell7pwsh.exe' -Command Get-Location",
}
LISTED = Path(__file__).with_name("disputed.md")


@dataclass(frozen=True)
class CorpusResult:
    """The undisputed commands of one corpus, and those of them that were allowed."""

    commands: list[str]
    allowed: list[str]


Judge = Callable[[str], CorpusResult]


@pytest.fixture
def judge(tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_EXEC_PATH", "GIT_PREFIX"):
        monkeypatch.delenv(name, raising=False)  # Set if a git hook runs the tests.

    def judged(name: str) -> CorpusResult:
        text = (data_dir / "permissions" / f"bash_{name}.jsonl").read_text(encoding="utf-8")
        rows: list[dict[str, str]] = [json.loads(line) for line in text.splitlines()]
        safe = name == "safe"
        # One command is in both files; only its label as unsafe is disputed.
        disputed = {one for one in DISPUTED if one.startswith("git") is not safe}
        commands = [row["command"] for row in rows if row["command"] not in disputed]
        bare = policy(tmp_path, home=tmp_path / "home")
        allowed = [one for one in commands if bare.evaluate(bash(one, tmp_path)).effect is ALLOW]
        return CorpusResult(commands, allowed)

    return judged


@pytest.mark.parametrize("name", ["unsafe", "destructive"])
def test_no_unsafe_or_destructive_command_is_allowed_without_asking(judge: Judge, name: str):
    configured = judge(name)

    assert len(configured.commands) > 200
    assert configured.allowed == []


def test_at_most_a_tenth_of_the_safe_commands_need_an_answer(judge: Judge):
    configured = judge("safe")

    asked = [one for one in configured.commands if one not in configured.allowed]

    assert len(configured.commands) > 70
    assert len(asked) <= len(configured.commands) / 10, asked


def test_every_disputed_label_is_listed_with_a_reason():
    text = LISTED.read_text(encoding="utf-8").replace("\\|", "|")

    assert [one for one in DISPUTED if f"`{one}` |" not in text] == []
