"""Files that version 0.1.0 wrote, read by this version."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from mcp_dispatch.settings.layers import build_sources
from mcp_dispatch.settings.settings import SettingsReader
from mcp_dispatch.settings.trust import read_record
from tests.support.client import Installation
from tests.support.paths import SUPPORT

FILES = SUPPORT / "files_0_1_0"
WORKSPACE = Path("/srv/project")
"""The workspace that the files are about; file names contain a hash of this path."""


@pytest.fixture
def upgraded(installed: Installation) -> Installation:
    """An installation with the state and config directories of the old version."""
    shutil.copytree(FILES / "config", installed.config, dirs_exist_ok=True)
    shutil.copytree(FILES / "state", installed.state)
    for path in (installed.config, installed.state):
        for each in (path, *path.rglob("*")):
            each.chmod(0o700 if each.is_dir() else 0o600)
    return installed


@pytest.mark.parametrize(
    ("command", "decision"),
    [("npm test", "allow"), ("git push", "ask"), ("cat .env", "deny"), ("npm start", "ask")],
)
def test_a_settings_file_still_decides_the_same(
    installed: Installation, command: str, decision: str
) -> None:
    installed.add_flags("--settings", str(FILES / "settings.json"))

    done = installed.run("explain", "--json", "Bash", json.dumps({"command": command}))

    assert json.loads(done.stdout)["decision"] == decision
    assert done.stderr == ""


def test_the_always_allow_file_of_a_workspace_is_found_and_read(upgraded: Installation) -> None:
    settings = SettingsReader(build_sources(environ=upgraded.environ)).read(WORKSPACE)

    assert [rule.text for rule in settings.rules.texts] == [
        "Bash(npm run build)",
        "mcp__demo__remember",
    ]
    assert settings.report.problems == ()


def test_a_trust_record_is_found_and_read(upgraded: Installation) -> None:
    record, problems = read_record(upgraded.config, WORKSPACE)

    assert record is not None
    assert len(record.grants) == 6
    assert len(record.guards) == 3
    assert problems == ()


def test_a_cached_tool_list_is_used_without_starting_the_server(upgraded: Installation) -> None:
    upgraded.add_flags("--mcp-config", str(FILES / "servers.json"))

    states = _list_states(upgraded)

    assert set(states) == {
        "demo__roll_dice",
        "demo__remember",
        "demo__recall",
        "demo__count_slowly",
    }


def test_activated_tools_are_found_in_a_journal(upgraded: Installation) -> None:
    upgraded.add_settings({"dispatch": {"toolSearch": {"mode": "always"}}})
    upgraded.add_flags("--mcp-config", str(FILES / "servers.json"))
    for journal in (upgraded.state / "journal").iterdir():
        day, _, rest = journal.name.partition("-18-")
        running = f"{day}-18-{os.getpid()}-{rest.partition('-')[2]}"
        journal.rename(journal.with_name(running))

    assert _list_states(upgraded)["demo__remember"] == "activated"


def test_a_journal_line_has_the_fields_it_had(installed: Installation) -> None:
    installed.add_rules(allow=["Bash(seq:*)"])
    installed.run("call", "Bash", json.dumps({"command": "seq 1 20000"}))
    installed.run("call", "Read", json.dumps({"file_path": "/etc/hostname"}))

    assert _list_fields(installed.state) == _list_fields(FILES / "state")


def _list_states(installed: Installation) -> dict[str, str]:
    """Return the state of each tool of the upstream by its name."""
    done = installed.run("tools", "--offline", "--json")
    assert done.returncode == 0, done.stderr
    servers: list[dict[str, Any]] = json.loads(done.stdout)["servers"]
    tools = [tool for server in servers if server["server"] == "demo" for tool in server["tools"]]
    return {tool["name"]: tool["state"] for tool in tools}


def _list_fields(state: Path) -> dict[str, set[str]]:
    """Return the keys of each kind of journal line, for calls of Bash and Read."""
    lines = [
        json.loads(line)
        for file in (state / "journal").glob("*.jsonl")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    return {entry["tool"]: set(entry) for entry in lines if entry.get("tool") in ("Bash", "Read")}
