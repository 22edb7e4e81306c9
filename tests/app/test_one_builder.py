"""The same calls get the same decisions from `serve`, `call`, `explain` and the library."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp_types import ElicitResult

import mcp_dispatch
from tests.support.client import Installation, extract_text

MODE = "acceptEdits"
RULES: dict[str, list[str]] = {
    "allow": ["Bash(echo *)", "Bash(make test:*)", "WebFetch(domain:ok.test)"],
    "ask": ["Bash(echo ask *)", "Read(./asked/**)", "Edit(./asked/**)"],
    "deny": ["Bash(rm:*)", "Read(./.env)", "Read(./denied/**)", "Edit(./denied/**)"],
}
COMMANDS = (
    "echo one",
    "echo one && echo two",
    "echo one | cat",
    "echo ask one",
    "echo one; echo ask two",
    "echo one; rm -rf build",
    "echo $(rm -rf build)",
    "echo one > made.txt",
    "echo one > .env",
    "echo one > ../outside.txt",
    "echo one > servers.json",
    "cp a.txt servers.json",
    "cp a.txt ./servers.json",
    "mv a.txt servers.json",
    "rm servers.json",
    "touch servers.json",
    "tee servers.json < a.txt",
    "sed -i s/a/b/ servers.json",
    "cat servers.json",
    "cp a.txt copy.txt",
    "cp a.txt ../copy.txt",
    "cp .env copy.txt",
    "mkdir folder",
    "mkdir -p folder/below",
    "mkdir ../folder",
    "touch new.txt",
    "touch asked/new.txt",
    "touch denied/new.txt",
    "ls",
    "ls -la asked",
    "ls ..",
    "pwd",
    "cat a.txt",
    "cat .env",
    "cat asked/a.txt",
    "head -n 1 a.txt",
    "wc -l a.txt",
    "grep a a.txt",
    "grep -r a .",
    "make push",
    "git push",
    "python3 -c 'print(1)'",
    "sh -c 'rm -rf build'",
    "env rm -rf build",
    "echo 'unfinished",
)
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("Bash", {"command": command}) for command in COMMANDS),
    ("Read", {"file_path": "a.txt"}),
    ("Read", {"file_path": ".env"}),
    ("Read", {"file_path": "asked/a.txt"}),
    ("Read", {"file_path": "servers.json"}),
    ("Read", {"file_path": "../settings-0.json"}),
    ("Write", {"file_path": "new.md", "content": "new\n"}),
    ("Write", {"file_path": "../new.md", "content": "new\n"}),
    ("Write", {"file_path": "asked/new.md", "content": "new\n"}),
    ("Write", {"file_path": "denied/new.md", "content": "new\n"}),
    ("Write", {"file_path": ".mcp-dispatch/settings.json", "content": "{}"}),
    ("Glob", {"pattern": "*.txt"}),
    ("Glob", {"pattern": "*.txt", "path": "denied"}),
    ("Grep", {"pattern": "a"}),
    ("Grep", {"pattern": "a", "path": "denied"}),
    ("WebFetch", {"url": "https://other.test/", "prompt": "read it"}),
)
DENIED = "has been denied"
# One process for all commands: most of the time of a command is the start of Python.
RUN_COMMANDS = """
import json, sys
from typer.testing import CliRunner
from mcp_dispatch.cli import app
for words in json.load(sys.stdin):
    print(json.dumps(CliRunner().invoke(app, words).output))
"""


def install(folder: Path) -> Installation:
    folder.mkdir()
    installed = Installation(folder).add_settings({"permissions": RULES})
    for name in ("a.txt", ".env", "asked/a.txt", "denied/a.txt"):
        installed.write_file(name, "a\n")
    servers = installed.write_file("servers.json", json.dumps({"mcpServers": {}}))
    return installed.add_flags("--mcp-config", str(servers), "--permission-mode", MODE)


async def decide_by_serve(folder: Path) -> list[str]:
    asked: list[str] = []

    async def decline(context: object, params: object) -> ElicitResult:
        asked.append("asked")
        return ElicitResult(action="decline")

    decisions: list[str] = []
    async with install(folder).open_client(elicitation_callback=decline) as client:
        for name, arguments in CALLS:
            asked.clear()
            text = extract_text(await client.call_tool(name, arguments))
            decisions.append("ask" if asked else "deny" if DENIED in text else "allow")
    return decisions


async def decide_by_library(folder: Path) -> list[str]:
    installed = install(folder)
    asked: list[str] = []

    async def decline(question: object) -> bool:
        asked.append("asked")
        return False

    decisions: list[str] = []
    async with mcp_dispatch.open(
        workspace=installed.workspace,
        settings=installed.folder / "settings-0.json",
        mcp_config=installed.workspace / "servers.json",
        state_dir=installed.folder / "state",
        permission_mode=MODE,
        environ=installed.environ,
        ask=decline,
    ) as dispatch:
        for name, arguments in CALLS:
            asked.clear()
            block = {"type": "tool_use", "id": "1", "name": name, "input": arguments}
            (result,) = [result async for result in dispatch.run([block])]
            text = json.dumps(result)
            decisions.append("ask" if asked else "deny" if DENIED in text else "allow")
    return decisions


def decide_by_call(folder: Path) -> list[str]:
    installed = install(folder)
    commands = [
        installed.build_command("call", name, json.dumps(arguments))[3:]
        for name, arguments in CALLS
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUN_COMMANDS],
        input=json.dumps(commands),
        env=installed.environ,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    )
    decisions: list[str] = []
    for output in map(json.loads, done.stdout.splitlines()):
        asked = "there is no terminal to ask on" in output
        decisions.append("ask" if asked else "deny" if DENIED in output else "allow")
    return decisions


def decide_by_explain(folder: Path) -> list[str]:
    installed = install(folder)
    lines = [json.dumps({"tool": name, "input": arguments}) for name, arguments in CALLS]
    done = installed.run("explain", "--batch", "-", said="\n".join(lines))
    return [json.loads(line)["decision"] for line in done.stdout.splitlines()]


def test_serve_call_explain_and_the_library_decide_alike(tmp_path: Path) -> None:
    by_explain = decide_by_explain(tmp_path / "explain")

    decisions = {
        "serve": anyio.run(decide_by_serve, tmp_path / "serve"),
        "call": decide_by_call(tmp_path / "call"),
        "library": anyio.run(decide_by_library, tmp_path / "library"),
    }

    assert len(CALLS) == len(by_explain) == 60
    differences = [
        (call, {"explain": expected} | {name: values[number] for name, values in decisions.items()})
        for number, (call, expected) in enumerate(zip(CALLS, by_explain, strict=True))
        if {values[number] for values in decisions.values()} != {expected}
    ]
    assert differences == []
    assert set(by_explain) == {"allow", "ask", "deny"}


def test_explain_denies_a_write_to_a_file_of_mcp_config(tmp_path: Path) -> None:
    decisions = dict(zip(COMMANDS, decide_by_explain(tmp_path / "explain"), strict=False))

    assert decisions["cp a.txt copy.txt"] == "allow"
    assert decisions["cp a.txt servers.json"] == "deny"
