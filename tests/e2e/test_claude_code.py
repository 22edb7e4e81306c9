"""The real command line of Claude Code with a real server and a scripted model."""

import json
import os
import shutil
import subprocess
from typing import Any

import pytest

from tests.support.client import Installation
from tests.support.demo_upstream import ALWAYS, DEMO
from tests.support.messages_api import MessagesApi, says, serve_messages_api, uses
from tests.support.paths import ROOT

VERSION = "2.1.197"
CACHE = ROOT / ".cache" / f"claude-code-{VERSION}"
PREFIX = "mcp__dispatch__"


@pytest.fixture(scope="module")
def claude() -> str:
    """The program, installed from npm once. Its native part is a package of its own, so that no
    script of the package needs to run."""
    if not (found := _program()):
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not here to install Claude Code with")
        try:
            done = subprocess.run(
                [
                    *(npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"),
                    *("--prefix", str(CACHE), f"@anthropic-ai/claude-code@{VERSION}"),
                ],
                capture_output=True,
                encoding="utf-8",
                timeout=240,
                check=False,
            )
        except subprocess.TimeoutExpired:
            pytest.skip("npm did not install Claude Code within 240 s")
        if done.returncode:
            pytest.skip(f"npm could not install Claude Code: {done.stderr[-300:]}")
        found = _program()
    if not found:
        pytest.skip(f"Claude Code {VERSION} has no program for this machine in {CACHE}")
    return found


def _program() -> str | None:
    for path in sorted(CACHE.glob("node_modules/@anthropic-ai/claude-code-*/claude")):
        try:
            told = subprocess.run([str(path), "--version"], capture_output=True, timeout=60)
        except OSError:  # made for another libc
            continue
        if told.returncode == 0:
            return str(path)
    return None


def ask(claude: str, installed: Installation, api: str) -> dict[str, Any]:
    """One question, as a person would put it on the command line. Nothing leaves the machine: the
    model is on loopback, and so is the proxy for everything else, which answers nothing."""
    command, *args = installed.command
    server = {
        "command": command,
        "args": args,
        "env": {"MCP_DISPATCH_CONFIG_DIR": str(installed.config)},
    }
    config = installed.folder / "claude.json"
    config.write_text(json.dumps({"mcpServers": {"dispatch": server}}), encoding="utf-8")
    home = installed.folder / "home"
    home.mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": api,
        "ANTHROPIC_API_KEY": "none-is-needed-here",
        "ENABLE_TOOL_SEARCH": "false",
        "MCP_TIMEOUT": "60000",
        "MCP_CONNECT_TIMEOUT_MS": "60000",
        "MCP_CONNECTION_NONBLOCKING": "0",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "HTTP_PROXY": api,
        "HTTPS_PROXY": api,
        "NO_PROXY": "127.0.0.1,localhost",
    }
    done = subprocess.run(
        [
            *(claude, "-p", "roll two dice", "--output-format", "json", "--strict-mcp-config"),
            *("--mcp-config", str(config), "--allowedTools", "mcp__dispatch"),
        ],
        cwd=installed.workspace,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def text_of(result: dict[str, Any]) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(b.get("text", "") for b in content)


def test_claude_code_calls_a_found_tool_in_the_next_turn(
    claude: str, installed: Installation
) -> None:
    installed.add_settings(ALWAYS).add_rules(allow=["mcp__demo"]).add_upstream("demo", *DEMO)
    script = [
        uses(f"{PREFIX}tool_search", query="throw dice", max_results=1),
        uses(f"{PREFIX}demo__roll_dice", sides=6, count=2),
        says("Two dice were rolled."),
    ]

    with serve_messages_api(script) as (api, address):
        answer = ask(claude, installed, address)

    assert answer["result"] == "Two dice were rolled."
    assert f"{PREFIX}demo__roll_dice" not in api.tools_of(0)
    assert f"{PREFIX}demo__roll_dice" in api.tools_of(1)
    found, rolled = api.results_in(2)
    assert "call them by their names" in text_of(found)
    assert not rolled.get("is_error")
    assert len(json.loads(text_of(rolled))["rolls"]) == 2
    told = [(entry["tool"], entry["outcome"]) for entry in installed.read_journal()]
    assert told == [("tool_search", "completed"), ("mcp__demo__roll_dice", "completed")]
    assert told_in_advance(api)
    assert api.elsewhere == []


def told_in_advance(api: MessagesApi) -> bool:
    """Whether the model is told before any search what there is to be found."""
    search = next(t for t in api.requests[0]["tools"] if t["name"] == f"{PREFIX}tool_search")
    return "- demo: count_slowly, recall, remember, roll_dice" in search["description"]
