"""Background commands through a real client, in both eras: start, read, stop."""

import re
from pathlib import Path

import anyio
import pytest
from mcp import Client

from tests.support.client import ERAS, Era, Installation, extract_text

pytestmark = pytest.mark.parametrize("era", ERAS)


def told(text: str) -> tuple[str, str]:
    """The task's id and its output file, as the answer names them."""
    task, path = (
        re.search(r"\b(b[a-z0-9]{7})\b", text),
        re.search(r"(/\S+\.txt|/\S+\.log|/\S+)", text),
    )
    assert task is not None
    assert path is not None
    return task.group(1), path.group(1).rstrip(".")


async def read_until(client: Client, path: str, wanted: str) -> str:
    with anyio.fail_after(20):
        while True:
            text = extract_text(await client.call_tool("Read", {"file_path": path}))
            if wanted in text:
                return text


async def test_a_background_command_is_read_while_it_runs_and_stopped(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(allow=["Bash"])
    command = "echo begun; echo $$ > pid; sleep 612"

    async with installed.open_client(era) as client:
        started = await client.call_tool("Bash", {"command": command, "run_in_background": True})
        task, path = told(extract_text(started))
        await read_until(client, path, "begun")
        stopped = await client.call_tool("TaskStop", {"task_id": task})
        again = await client.call_tool("KillShell", {"shell_id": task})

    pid = (installed.workspace / "pid").read_text(encoding="utf-8").strip()
    assert not stopped.is_error, extract_text(stopped)
    assert again.is_error
    assert not Path(f"/proc/{pid}").exists()
    assert [entry["tool"] for entry in installed.read_journal() if entry["tool"] != "Read"] == [
        *("Bash", "TaskStop", "TaskStop"),
    ]


async def test_a_command_over_its_timeout_continues_in_the_background(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(allow=["Bash"])
    (installed.workspace / "go").touch()
    command = "echo first; tail -f go; echo last"

    async with installed.open_client(era) as client:
        moved = await client.call_tool("Bash", {"command": command, "timeout": 300})
        assert "moved to the background" in extract_text(moved), extract_text(moved)
        task, path = told(extract_text(moved).split("moved to the background")[1])
        seen = await read_until(client, path, "first")
        stopped = await client.call_tool("TaskStop", {"task_id": task})

    assert "first" in seen
    assert not stopped.is_error
