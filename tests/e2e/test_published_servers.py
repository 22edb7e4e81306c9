"""Published servers behind mcp-dispatch, all in one process: listed, and called."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.client import Installation, extract_text
from tests.support.real_servers import (
    EVERYTHING,
    FILESYSTEM,
    GIT,
    MEMORY,
    TIME,
    install_npm_package,
    install_pip_package,
)

NEVER = {"dispatch": {"toolSearch": {"mode": "never"}, "upstreams": {"firstListSeconds": 60}}}


def servers(workspace: Path, folder: Path) -> dict[str, Any]:
    node = install_npm_package(EVERYTHING, FILESYSTEM, MEMORY) / "node_modules" / ".bin"
    python = install_pip_package(GIT, TIME)
    memory = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return {
        "everything": {"command": str(node / "mcp-server-everything"), "args": ["stdio"]},
        "files": {"command": str(node / "mcp-server-filesystem"), "args": [str(workspace)]},
        "memory": {"command": str(node / "mcp-server-memory"), "env": memory},
        "git": {"command": str(python / "mcp-server-git"), "args": ["-r", str(workspace)]},
        "time": {"command": str(python / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
    }


def make_repository(folder: Path) -> None:
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first words"], check=True)


@pytest.mark.skipif(sys.platform == "win32", reason="the programs are scripts")
async def test_published_servers_are_listed_and_called_through_one_process(tmp_path: Path) -> None:
    installed = Installation(tmp_path)
    note = installed.write_file("note.txt", "remember the milk")
    make_repository(installed.workspace)
    entries = servers(installed.workspace, tmp_path)
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    installed.add_settings(NEVER).add_rules(allow=[f"mcp__{name}" for name in entries])
    installed.add_flags("--mcp-config", str(file))
    entity = {"name": "milk", "entityType": "food", "observations": ["white"]}
    calls: list[tuple[str, dict[str, Any], str]] = [
        ("everything__echo", {"message": "hello there"}, "hello there"),
        ("files__read_text_file", {"path": str(note)}, "remember the milk"),
        ("memory__create_entities", {"entities": [entity]}, "white"),
        ("memory__search_nodes", {"query": "milk"}, "food"),
        ("git__git_log", {"repo_path": str(installed.workspace)}, "first words"),
        ("time__get_current_time", {"timezone": "UTC"}, "UTC"),
    ]

    with anyio.fail_after(120):
        async with installed.open_client() as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            answers = [
                extract_text(await client.call_tool(name, given)) for name, given, _ in calls
            ]
        async with installed.open_client("2026-07-28") as client:
            again = [tool.name for tool in (await client.list_tools()).tools]

    for (name, _, expected), answer in zip(calls, answers, strict=True):
        assert name in names
        assert expected in answer, f"{name}: {answer}"
    assert again == names
