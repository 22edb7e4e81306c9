"""The snippets of docs/clients.md start a server, each as its client would start it."""

import json
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.support.client import BUILT_INS
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")


def block(start: str) -> str:
    found = re.search(rf"{start}\s*```\w+\n(.+?)\n```", PAGE, re.DOTALL)
    assert found is not None, f"docs/clients.md has no block after {start!r}"
    return found.group(1)


def _vscode(text: str) -> list[str]:
    entry: Any = json.loads(text)["servers"]["dispatch"]
    assert entry["type"] == "stdio"
    return [entry["command"], *entry["args"]]


def _codex(text: str) -> list[str]:
    entry: Any = tomllib.loads(text)["mcp_servers"]["dispatch"]
    return [entry["command"], *entry["args"]]


def _general(text: str) -> list[str]:
    entry: Any = json.loads(text)["mcpServers"]["dispatch"]
    return [entry["command"], *entry["args"]]


def _claude_code(text: str) -> list[str]:
    words = shlex.split(text)
    return words[words.index("--") + 1 :]


SNIPPETS = {
    "general": (block("# Register it with your client"), _general),
    "vscode": (block("<!-- vscode -->"), _vscode),
    "codex": (block("<!-- codex -->"), _codex),
    "claude-code": (block("<!-- claude-code -->"), _claude_code),
}


@pytest.mark.parametrize("client", SNIPPETS)
async def test_the_snippet_starts_a_server_that_lists_its_tools(
    client: str, tmp_path: Path
) -> None:
    text, read = SNIPPETS[client]
    command, *args = [
        word.replace("/path/to/your/project", str(tmp_path))
        .replace("/path/to/mcp-dispatch/.venv/bin", str(Path(sys.executable).parent))
        .replace("/path/to/mcp-dispatch", str(ROOT))
        for word in read(text)
    ]
    server = StdioServerParameters(
        command=command,
        args=[*args, "--state-dir", str(tmp_path / "state")],
        env={**os.environ, "MCP_DISPATCH_CONFIG_DIR": str(tmp_path / "none"), "HOME": "/nowhere"},
        cwd="/",
    )

    with (tmp_path / "stderr").open("w", encoding="utf-8") as errors:
        async with Client(stdio_client(server, errlog=errors), mode="legacy") as session:
            listed = await session.list_tools()

    assert {tool.name for tool in listed.tools} >= set(BUILT_INS)
    assert (tmp_path / "stderr").read_text(encoding="utf-8") == ""
