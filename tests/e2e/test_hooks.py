"""Hooks of a real server, seen by real clients."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_dispatch.model.json import JsonObject
from tests.support.client import ERAS, Era, Installation, extract_text
from tests.support.http_server_process import open_session, start_http_server

DEMO = (sys.executable, "-m", "mcp_dispatch.demo.upstream")


def hook(**fields: Any) -> dict[str, Any]:
    return {"hooks": [{"type": "command", **fields}]}


@pytest.mark.parametrize("era", ERAS)
async def test_session_hooks_run_from_the_first_call_to_the_end(
    installed: Installation, era: Era
) -> None:
    remember = {
        "type": "mcp_tool",
        "server": "demo",
        "tool": "remember",
        "input": {"note": "ran ${tool_input.command}"},
    }
    installed.add_upstream("demo", *DEMO).add_settings(
        {
            "permissions": {"allow": ["mcp__demo__recall"]},
            "hooks": {
                "SessionStart": [hook(command="echo the session has begun")],
                "PreToolUse": [
                    {"matcher": "Bash", "hooks": [remember]},
                    {
                        "matcher": "Bash",
                        "hooks": [
                            {"type": "command", "command": "exit 2", "if": "Bash(git push:*)"}
                        ],
                    },
                ],
                "PostToolUse": [hook(command="head -c 20000 /dev/zero | tr '\\0' x >&2; exit 2")],
                "SessionEnd": [hook(command="cat > ended", timeout=30)],
            },
        }
    )

    async with installed.open_client(era) as client:
        await client.list_tools()
        first = await client.call_tool("Bash", {"command": "echo one"})
        pushed = await client.call_tool("Bash", {"command": "echo two && git push"})
        recalled = await client.call_tool("demo__recall", {})

    assert "SessionStart:startup hook additional context: the session has begun" in extract_text(
        first
    )
    assert "hook blocking error" in extract_text(first)
    assert pushed.is_error
    assert "ran echo one" in extract_text(recalled)
    assert "ran echo two && git push" in extract_text(recalled)
    ended = json.loads((installed.workspace / "ended").read_text("utf-8"))
    assert (ended["hook_event_name"], ended["reason"]) == ("SessionEnd", "other")


async def test_a_session_over_http_ends_when_its_client_deletes_it(installed: Installation) -> None:
    installed.add_settings({"hooks": {"SessionEnd": [hook(command="cat > ended", timeout=30)]}})
    installed.write_file("notes.txt", "x")
    call: JsonObject = {"name": "Read", "arguments": {"file_path": "notes.txt"}}
    ended = installed.workspace / "ended"

    async with start_http_server(installed) as server, server.http() as http:
        silent, speaking = [await open_session(http, server.url) for _ in range(2)]
        message: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        assert (await speaking.post(message)).status_code == 200
        assert await silent.delete() == 200
        assert not ended.exists()
        assert await speaking.delete() == 200
        with anyio.fail_after(30):
            while not ended.exists() or not ended.read_text("utf-8"):
                await anyio.lowlevel.checkpoint()

    assert json.loads(ended.read_text("utf-8"))["hook_event_name"] == "SessionEnd"


async def test_a_long_context_is_kept_in_a_file_that_read_opens(installed: Installation) -> None:
    says = "import json; print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PostToolUse', "
    says += "'additionalContext': 'line\\n' * 5000 + 'the end'}}))"
    installed.write_file("says.py", says)
    installed.write_file("notes.txt", "x")
    group = {"matcher": "Glob", **hook(command=f"{sys.executable} says.py")}
    installed.add_settings({"hooks": {"PostToolUse": [group]}})

    async with installed.open_client() as client:
        found = extract_text(await client.call_tool("Glob", {"pattern": "notes.txt"}))
        path = Path(found.partition("Full output saved to: ")[2].partition("\n")[0])
        read = await client.call_tool("Read", {"file_path": str(path), "offset": 5001})

    assert "PostToolUse:Glob hook additional context: <persisted-output>" in found
    assert len(found) < 5_000
    assert path.is_relative_to(installed.state)
    assert "5001\tthe end\n" in extract_text(read)
