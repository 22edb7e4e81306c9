"""Calls that a real client sends at once, over stdio and HTTP, in both eras."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.abc import TaskGroup
from mcp import Client

from mcp_dispatch.model.json import Json
from tests.support.client import ERAS, Era, Installation, extract_text, start_raw_server
from tests.support.http_server_process import start_http_server, until_gone

Way = Literal["stdio", "http"]

# Runs inside the call's slot: says that it has begun, and waits until it may go on.
BEFORE = """
name=$(grep -o '"file_path": *"[^"]*"' | sed 's/.*[/"]\\([^/"]*\\)"$/\\1/')
echo "begin $name" >> ../log
echo "$name" > ../begun
cat "../gate-$name"
"""
AFTER = """
name=$(grep -o '"file_path": *"[^"]*"' | head -n 1 | sed 's/.*[/"]\\([^/"]*\\)"$/\\1/')
echo "end $name" >> ../log
"""


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    return request.param


@pytest.fixture(params=["stdio", "http"])
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@asynccontextmanager
async def client_of(installed: Installation, way: Way, era: Era) -> AsyncGenerator[Client, None]:
    if way == "stdio":
        async with installed.open_client(era) as client:
            yield client
    else:
        async with start_http_server(installed) as server, server.client(era) as client:
            yield client


async def arrived(client: Client) -> None:
    """What was sent before has reached the server: it answers in between."""
    for _ in range(2):
        await client.list_tools()


class Watched:
    """Calls of Read and Write that tell when they begin and go on when they are let."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        os.mkfifo(folder / "begun")
        # Open for both, so that it never ends between two writers.
        self._begun = os.open(folder / "begun", os.O_RDWR | os.O_NONBLOCK)

    def gate(self, name: str) -> None:
        os.mkfifo(self._folder / f"gate-{name}")

    async def begun(self, count: int) -> list[str]:
        """The names of that many calls that have begun since the last time, or of more."""
        names: list[str] = []
        while len(names) < count:
            await anyio.wait_readable(self._begun)
            names += os.read(self._begun, 4096).decode().split()
        return names

    async def let_go(self, *names: str) -> None:
        for name in names:
            async with await anyio.open_file(self._folder / f"gate-{name}", "w") as gate:
                await gate.write("")

    def log(self) -> list[str]:
        return (self._folder / "log").read_text(encoding="utf-8").splitlines()

    def close(self) -> None:
        os.close(self._begun)


def hooks() -> dict[str, Any]:
    def of(script: str) -> list[dict[str, Any]]:
        command = {"type": "command", "command": script, "timeout": 60}
        return [{"matcher": "Read|Write", "hooks": [command]}]

    return {"PreToolUse": of(BEFORE), "PostToolUse": of(AFTER)}


async def test_two_reads_a_write_and_two_reads_run_as_two_one_two(
    installed: Installation, way: Way, era: Era
) -> None:
    installed.add_settings({"permissions": {"allow": ["Edit(./**)"]}, "hooks": hooks()})
    watched = Watched(installed.folder)
    for name in ("r1", "r2", "w", "r3", "r4"):
        watched.gate(name)
        if name != "w":
            installed.write_file(name, name)
    failed: list[str] = []

    async def call(client: Client, name: str) -> None:
        tool = "Write" if name == "w" else "Read"
        more = {"content": "new"} if name == "w" else {}
        result = await client.call_tool(tool, {"file_path": name, **more})
        if result.is_error:
            failed.append(extract_text(result))

    with anyio.fail_after(120):
        async with client_of(installed, way, era) as client:
            # Over HTTP each call needs a connection; those that are open keep the order.
            async with anyio.create_task_group() as warming:
                for _ in range(6):
                    warming.start_soon(client.list_tools)
            async with anyio.create_task_group() as calls:
                for name in ("r1", "r2", "w", "r3", "r4"):
                    calls.start_soon(call, client, name)
                    await arrived(client)
                for group in (["r1", "r2"], ["w"], ["r3", "r4"]):
                    assert sorted(await watched.begun(len(group))) == group
                    await watched.let_go(*group)
    watched.close()

    log = watched.log()
    assert failed == []
    assert [sorted(log[:2]), sorted(log[2:4]), log[4:6], sorted(log[6:8]), sorted(log[8:])] == [
        ["begin r1", "begin r2"],
        ["end r1", "end r2"],
        ["begin w", "end w"],
        ["begin r3", "begin r4"],
        ["end r3", "end r4"],
    ]


async def test_a_failed_command_cancels_the_queued_one_with_the_reason(
    installed: Installation, era: Era
) -> None:
    os.mkfifo(installed.workspace / "gate")
    concurrency = {"batchWindowMs": 60_000}
    installed.add_settings(
        {"permissions": {"allow": ["Bash"]}, "dispatch": {"concurrency": concurrency}}
    )
    said: dict[str, tuple[str, bool | None]] = {}

    async def call(client: Client, command: str) -> None:
        result = await client.call_tool("Bash", {"command": command})
        said[command] = extract_text(result), result.is_error

    with anyio.fail_after(60):
        async with installed.open_client(era) as client:
            async with anyio.create_task_group() as calls:
                for command in ("cat gate; exit 3", "touch behind", "exit 4"):
                    calls.start_soon(call, client, command)
                    await arrived(client)
                async with await anyio.open_file(installed.workspace / "gate", "w") as gate:
                    await gate.write("go")
            await call(client, "echo after")

    why = (
        "<tool_use_error>The call was cancelled (sibling_error): Bash `cat gate; exit 3`, which "
        "was called together with it, failed; this call did not run.</tool_use_error>"
    )
    assert said["touch behind"] == said["exit 4"] == (why, True)
    assert said["echo after"] == ("after", False)
    assert not (installed.workspace / "behind").exists()
    ends = [(entry["outcome"], entry.get("reason")) for entry in installed.read_journal()]
    assert sorted(ends, key=str) == [
        ("cancelled", "sibling_error"),
        ("cancelled", "sibling_error"),
        ("completed", None),
        ("error", None),
    ]


async def test_a_write_whose_client_cancels_it_is_whole_and_a_queued_one_never_runs(
    installed: Installation, era: Era
) -> None:
    installed.add_settings({"permissions": {"allow": ["Edit(./**)"]}, "hooks": hooks()})
    watched = Watched(installed.folder)
    watched.gate("w1")
    content = "0123456789" * 200_000

    with anyio.fail_after(60):
        async with installed.open_client(era) as client, anyio.create_task_group() as calls:
            calls.start_soon(_write, client, "w1", content)
            await watched.begun(1)
            await _cancelled_once(calls, client, "w2", content)
            await watched.let_go("w1")
    watched.close()

    assert (installed.workspace / "w1").read_text(encoding="utf-8") == content
    assert not (installed.workspace / "w2").exists()
    ends = [(e["outcome"], e.get("reason")) for e in installed.read_journal() if "outcome" in e]
    assert sorted(ends, key=str) == [("cancelled", "user_interrupted"), ("completed", None)]


async def _write(client: Client, name: str, content: str) -> None:
    await client.call_tool("Write", {"file_path": name, "content": content})


async def _cancelled_once(calls: TaskGroup, client: Client, name: str, content: str) -> None:
    """Sends the call, and cancels it as soon as it has arrived."""
    scope = anyio.CancelScope()

    async def call() -> None:
        with scope:
            await _write(client, name, content)

    calls.start_soon(call)
    await arrived(client)
    scope.cancel()
    await arrived(client)


async def test_a_call_that_its_client_cancels_gets_no_answer(installed: Installation) -> None:
    installed.add_rules(allow=["Bash"])
    os.mkfifo(installed.workspace / "pid")
    answered: list[Json] = []

    with anyio.fail_after(60):
        async with start_raw_server(installed) as server:
            await server.handshake()
            await server.call("long", "Bash", command="echo $$ > pid; sleep 600")
            async with await anyio.open_file(installed.workspace / "pid") as pipe:
                pid = int(await pipe.readline())
            method, id = "notifications/cancelled", "long"
            await server.send({"jsonrpc": "2.0", "method": method, "params": {"requestId": id}})
            await until_gone(pid)
            await server.call("next", "Bash", command="echo next")
            while "next" not in answered:
                answered.append((await server.receive()).get("id"))

    assert "long" not in answered
    ends = [(entry["outcome"], entry.get("reason")) for entry in installed.read_journal()]
    assert ends == [("cancelled", "user_interrupted"), ("completed", None)]
