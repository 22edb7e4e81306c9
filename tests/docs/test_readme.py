"""The steps of the README work as written."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.support.client import extract_text
from tests.support.paths import ROOT

LEFT_OUT = shutil.ignore_patterns(
    ".venv", ".git", "__pycache__", ".pytest_cache", ".cache", "*.egg-info"
)


def block(name: str) -> str:
    """The code block behind the comment `<!-- name -->`."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name} -->\s*```\w*\n(.+?)\n```", text, re.DOTALL)
    assert found is not None, f"README.md has no block {name!r}"
    return found.group(1)


def test_the_demo_command_works_in_a_fresh_copy(tmp_path: Path) -> None:
    copy = tmp_path / "mcp-dispatch"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    # Compiling every dependency takes longer than all the rest, and the demo needs a few of them.
    environ = {
        **os.environ,
        "MCP_DISPATCH_CONFIG_DIR": str(tmp_path / "none"),
        "PIP_NO_COMPILE": "1",
    }

    done = subprocess.run(
        ["bash", "-c", block("demo")],
        cwd=copy,
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=400,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "That was mcp-dispatch." in done.stdout
    assert "has been denied" in done.stdout
    assert "+- green tea" in done.stdout
    assert 'the person answers: "allow once"' in done.stdout
    assert "[allow once] [allow for this session] [always allow] [deny]" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_the_first_screen_describes_the_project_and_fits_a_screen() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first_screen = text.split("\n## ")[0]

    assert len(first_screen.splitlines()) <= 32
    assert "One MCP server in front of all of your tools" in first_screen
    assert "lookup ─► validate" in first_screen


async def test_the_claude_desktop_snippet_reads_edits_and_runs(tmp_path: Path) -> None:
    workspace = tmp_path / "project"
    workspace.mkdir()
    (workspace / "notes.txt").write_text("one\n", encoding="utf-8")
    (workspace / ".env").write_text("SECRET=1\n", encoding="utf-8")
    snippet: dict[str, Any] = json.loads(
        block("claude-desktop")
        .replace("/path/to/your/project", str(workspace))
        .replace("/path/to/mcp-dispatch/.venv/bin", str(Path(sys.executable).parent))
        .replace("/path/to/mcp-dispatch", str(ROOT))
    )
    entry = snippet["mcpServers"]["dispatch"]
    # Claude Desktop starts servers in the root directory.
    server = StdioServerParameters(
        command=entry["command"],
        args=[*entry["args"], "--state-dir", str(tmp_path / "state")],
        env={**os.environ, "MCP_DISPATCH_CONFIG_DIR": str(tmp_path / "none")},
        cwd="/",
    )

    with (tmp_path / "stderr").open("w", encoding="utf-8") as errors:
        async with Client(stdio_client(server, errlog=errors), mode="legacy") as client:
            read = await client.call_tool("Read", {"file_path": str(workspace / "notes.txt")})
            edited = await client.call_tool(
                "Edit", {"file_path": "notes.txt", "old_string": "one", "new_string": "two"}
            )
            ran = await client.call_tool("Bash", {"command": "cat notes.txt"})
            secret = await client.call_tool("Read", {"file_path": ".env"})
            unclear = await client.call_tool("Bash", {"command": "echo $(cat .env)"})

    assert extract_text(read) == "     1\tone"
    assert not edited.is_error, extract_text(edited)
    assert extract_text(ran) == "two"
    assert secret.is_error
    assert unclear.is_error
    assert (tmp_path / "stderr").read_text(encoding="utf-8") == ""


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_every_link_of_the_docs_has_a_target(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text)

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_link_of_the_readme_has_a_target() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text)

    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
