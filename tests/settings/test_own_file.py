"""Tests of the file in which "always allow" stores its rules."""

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_dispatch.fs.atomic import lock_file
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import hash_definition
from mcp_dispatch.settings.own_file import add_allow_rules
from mcp_dispatch.settings.settings import Layer, LayerKind, load_settings
from mcp_dispatch.settings.stale_approvals import find_stale_rules, remove_rules


def test_the_first_rule_creates_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "config" / "workspaces" / "1.json"

    add_allow_rules(path, ["Bash(npm test:*)"], {})

    assert json.loads(path.read_text(encoding="utf-8")) == {
        "permissions": {"allow": ["Bash(npm test:*)"]}
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_existing_content_is_kept_and_no_rule_is_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    before: dict[str, Any] = {
        "$comment": "mine",
        "permissions": {"deny": ["Bash(rm:*)"], "allow": ["Bash(ls:*)"], "defaultMode": "plan"},
        "hooks": {"PreToolUse": []},
    }
    path.write_text(json.dumps(before), encoding="utf-8")

    add_allow_rules(path, ["Bash(ls:*)", "mcp__git__log"], {"mcp__git__log": "d1"})
    add_allow_rules(path, ["mcp__git__log"], {"mcp__git__log": "d2"})

    after = json.loads(path.read_text(encoding="utf-8"))
    assert after == {
        **before,
        "permissions": {
            **before["permissions"],
            "allow": ["Bash(ls:*)", "mcp__git__log"],
        },
        "approvedDefinitions": {"mcp__git__log": "d2"},
    }
    assert list(after)[:3] == list(before)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not JSON"),
        ('{"permissions": []}', "expected an object"),
        ('{"permissions": {"allow": "Bash"}}', "expected a list"),
        ('{"permissions": {"allow": []}, "permissions": {}}', "occurs twice"),
        ('{"approvedDefinitions": 1}', "expected an object"),
    ],
)
def test_an_invalid_file_is_not_changed(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "1.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(ConfigError, match=reason):
        add_allow_rules(path, ["T"], {"T": "digest"})

    assert path.read_text(encoding="utf-8") == content


def test_concurrent_writers_lose_no_rules(tmp_path: Path) -> None:
    path = tmp_path / "workspaces" / "1.json"
    script = (
        "import sys; from pathlib import Path; from mcp_dispatch.settings.own_file import *\n"
        "for n in range(20): add_allow_rules(Path(sys.argv[1]), [f'Bash({sys.argv[2]}{n})'], {})"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in ("a", "b")
    ]

    assert [writer.wait(60) for writer in writers] == [0, 0]

    rules = json.loads(path.read_text(encoding="utf-8"))["permissions"]["allow"]
    assert sorted(rules) == sorted(f"Bash({name}{n})" for name in "ab" for n in range(20))


def test_waiting_for_a_held_lock_times_out(tmp_path: Path) -> None:
    lock = tmp_path / "lock"

    with (
        lock_file(lock),
        pytest.raises(TimeoutError, match="another process"),
        lock_file(lock, 0.05),
    ):
        pass


def test_a_rule_is_stale_once_the_definition_of_its_tool_changes(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    approved: JsonObject = {"name": "a", "description": "reads"}
    current: JsonObject = {"name": "a", "description": "deletes"}
    digest = hash_definition(approved)
    add_allow_rules(path, ["mcp__git__log", "Bash(ls:*)"], {"mcp__git__log": digest})
    settings = load_settings([Layer(LayerKind.OWN, path)])

    same = find_stale_rules(settings, {"mcp__git__log": approved}.get)
    unknown = find_stale_rules(settings, lambda _: None)
    changed = find_stale_rules(settings, {"mcp__git__log": current}.get)

    assert (same, unknown) == ((), ())
    assert [rule.text for rule in changed] == ["mcp__git__log"]
    remaining = remove_rules(settings, changed)
    assert [rule.text for rule in remaining.rules.texts if rule.effect is Effect.ALLOW] == [
        "Bash(ls:*)"
    ]
    assert "has changed since you allowed it" in str(remaining.report.problems[-1])


def test_approved_definitions_are_read_only_from_the_own_file(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    add_allow_rules(path, ["mcp__git__log"], {"mcp__git__log": "old"})

    settings = load_settings([Layer(LayerKind.USER, path)])

    assert settings.rules.approved_definitions == {}
    assert find_stale_rules(settings, lambda _: {"name": "x"}) == ()


def test_the_definition_hash_ignores_the_name() -> None:
    assert hash_definition({"name": "a", "x": 1}) == hash_definition({"name": "b", "x": 1})
    assert hash_definition({"name": "a", "x": 1}) != hash_definition({"name": "a", "x": True})
