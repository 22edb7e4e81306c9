"""The pipeline as a Python library, with real tools, files and processes."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import mcp_dispatch
from mcp_dispatch.blocks import ToolResultBlock
from mcp_dispatch.library.library import AskCallback, Dispatch
from mcp_dispatch.model.approval import Approved, Declined, Question
from mcp_dispatch.model.errors import StartError
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.pipeline.batch import CallState
from tests.support.client import BUILT_INS
from tests.support.http_server_process import until_gone

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
ALLOW_ALL: dict[str, Sequence[str]] = {"allow": ["Bash", "Edit(./**)"]}


class LibrarySetup:
    """A workspace, settings and a state directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.servers: list[Path] = []
        self.settings = folder / "settings.json"
        self.write_settings(ALLOW_ALL)

    def write_settings(self, permissions: dict[str, Sequence[str]], **more: Any) -> None:
        content = {"permissions": permissions, **more}
        self.settings.write_text(json.dumps(content), encoding="utf-8")

    def write_file(self, name: str, content: str | bytes) -> Path:
        path = self.workspace / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def add_upstream(self) -> None:
        """Configure the demo server, whose tools are deferred."""
        entry = {"command": sys.executable, "args": ["-m", "mcp_dispatch.demo.upstream"]}
        self.servers = [self.folder / "servers.json"]
        self.servers[0].write_text(json.dumps({"mcpServers": {"demo": entry}}), encoding="utf-8")

    @asynccontextmanager
    async def open(self, ask: AskCallback | None = None) -> AsyncGenerator[Dispatch, None]:
        async with mcp_dispatch.open(
            workspace=self.workspace,
            settings=self.settings,
            mcp_config=self.servers,
            state_dir=self.folder / "state",
            environ={**os.environ, "MCP_DISPATCH_CONFIG_DIR": str(self.folder / "config")},
            ask=ask,
        ) as dispatch:
            yield dispatch

    def read_journal(self) -> list[dict[str, Any]]:
        files = sorted((self.folder / "state" / "journal").glob("*.jsonl"))
        return [
            json.loads(line)
            for file in files
            for line in file.read_text(encoding="utf-8").splitlines()
        ]


@pytest.fixture
def setup(tmp_path: Path) -> LibrarySetup:
    return LibrarySetup(tmp_path)


def build_tool_use(id: str, name: str, /, **arguments: Json) -> JsonObject:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def join_text(result: ToolResultBlock) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


async def run_all(dispatch: Dispatch, *blocks: JsonObject) -> list[ToolResultBlock]:
    with anyio.fail_after(60):
        return [result async for result in dispatch.run(blocks)]


async def test_definitions_have_a_stable_order_and_the_fields_of_the_api(
    setup: LibrarySetup,
) -> None:
    async with setup.open() as dispatch:
        first, second = dispatch.definitions(), dispatch.definitions()

    assert [each["name"] for each in first] == list(BUILT_INS)
    assert json.dumps(first) == json.dumps(second)
    assert all(list(each) == ["name", "description", "input_schema"] for each in first)


async def test_a_whole_message_gives_a_result_for_each_call_in_order(setup: LibrarySetup) -> None:
    setup.write_file("a.txt", "alpha")
    setup.write_file("dot.png", PNG)

    async with setup.open() as dispatch:
        results = await run_all(
            dispatch,
            {"type": "text", "text": "I will look."},
            build_tool_use("1", "Read", file_path="a.txt"),
            build_tool_use("2", "Read", file_path="dot.png"),
            build_tool_use("3", "Edit", file_path="a.txt", old_string="alpha", new_string="beta"),
            build_tool_use("4", "Read", file_path="a.txt"),
            {"type": "server_tool_use", "id": "5", "name": "web_search", "input": {}},
        )

    assert [result["tool_use_id"] for result in results] == ["1", "2", "3", "4"]
    assert all("is_error" not in result for result in results)
    assert "alpha" in join_text(results[0])
    image = results[1]["content"]
    assert isinstance(image, list)
    assert [block["type"] for block in image if isinstance(block, dict)][-1] == "image"
    assert "beta" in join_text(results[3])


async def test_every_problem_of_a_call_is_reported_in_its_result(setup: LibrarySetup) -> None:
    setup.write_settings({"deny": ["Read(./.env)"], "allow": ["Bash"]})
    setup.write_file(".env", "SECRET=1")

    async with setup.open() as dispatch:
        results = await run_all(
            dispatch,
            build_tool_use("1", "Nope"),
            build_tool_use("2", "Read", path="a"),
            build_tool_use("3", "Read", file_path=".env"),
            {"type": "tool_use", "id": "4", "name": "Read", "input": "not an object"},
            {"type": "tool_use", "id": "5", "name": "Read", "input": {"file_path": "\ud800"}},
            build_tool_use("6", "Bash", command="exit 3"),
            build_tool_use("7", "Bash", command="true"),
            {"type": "tool_use", "id": "8", "name": None, "input": {}},
        )

    texts = [join_text(result) for result in results]
    assert all(result.get("is_error") is True for result in results)
    assert "Nope" in texts[0]
    assert "InputValidationError" in texts[1]
    assert "a deny rule forbids it (Read(./.env)" in texts[2]
    assert "it must be an object, got str" in texts[3]
    assert "InputValidationError" in texts[4]
    assert texts[5].startswith("Exit code 3")
    assert texts[6] == (
        "<tool_use_error>The call was cancelled (sibling_error): Bash `exit 3`, which was called "
        "together with it, failed; this call did not run.</tool_use_error>"
    )
    assert "None" in texts[7]
    assert [
        entry.get("reason") for entry in setup.read_journal() if entry["outcome"] == "cancelled"
    ] == ["sibling_error"]


async def test_a_block_without_an_id_raises_a_value_error(setup: LibrarySetup) -> None:
    async with setup.open() as dispatch:
        with pytest.raises(ValueError, match="needs an id"):
            dispatch.stream().add({"type": "tool_use", "name": "Read", "input": {}})


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (True, "made"),
        (Approved(), "made"),
        (False, "the user refused"),
        (Declined("use make"), "use make"),
        (RuntimeError("no terminal"), "the question could not be put: no terminal"),
    ],
)
async def test_the_ask_callback_decides_whether_a_call_runs(
    setup: LibrarySetup, reply: bool | Approved | Declined | Exception, expected: str
) -> None:
    setup.write_settings({})
    asked: list[Question] = []

    async def ask(question: Question) -> bool | Approved | Declined:
        asked.append(question)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async with setup.open(ask) as dispatch:
        (result,) = await run_all(
            dispatch, build_tool_use("1", "Bash", command="touch x && echo made")
        )

    assert [question.tool for question in asked] == ["Bash"]
    assert expected in join_text(result)
    assert (setup.workspace / "x").exists() is (expected == "made")


async def test_results_are_delivered_in_order_while_calls_are_still_added(
    setup: LibrarySetup,
) -> None:
    os.mkfifo(setup.workspace / "gate")
    setup.write_file("b.txt", "second")
    states: list[tuple[str, CallState]] = []

    async with setup.open() as dispatch:
        executor = dispatch.stream(on_state=lambda id, state: states.append((id, state)))
        executor.add(build_tool_use("1", "Bash", command="cat gate"))
        executor.add(build_tool_use("2", "Read", file_path="b.txt"))
        with anyio.fail_after(30):
            while executor.states["2"] is not CallState.COMPLETED:
                await checkpoint()
        early = executor.completed()
        assert executor.states == {"1": CallState.EXECUTING, "2": CallState.COMPLETED}
        executor.add(build_tool_use("3", "Write", file_path="c.txt", content="third"))
        assert executor.states["3"] is CallState.QUEUED
        async with await anyio.open_file(setup.workspace / "gate", "w") as gate:
            await gate.write("first")
        with anyio.fail_after(30):
            results = await executor.remaining()

    assert early == []
    assert [result["tool_use_id"] for result in results] == ["1", "2", "3"]
    assert join_text(results[0]) == "first"
    assert set(executor.states.values()) == {CallState.DELIVERED}
    assert [state for id, state in states if id == "3"] == [
        CallState.EXECUTING,
        CallState.COMPLETED,
        CallState.DELIVERED,
    ]


async def test_progress_is_reported_while_the_call_runs(setup: LibrarySetup) -> None:
    os.mkfifo(setup.workspace / "gate")
    reported: list[str] = []

    async with setup.open() as dispatch:

        async def record_progress(id: str, update: JsonObject) -> None:
            reported.append(id)
            async with await anyio.open_file(setup.workspace / "gate", "w") as gate:
                await gate.write("go")

        with anyio.fail_after(60):
            blocks = [build_tool_use("1", "Bash", command="echo begun; cat gate")]
            results = [result async for result in dispatch.run(blocks, progress=record_progress)]

    assert reported[:1] == ["1"]
    assert join_text(results[0]) == "begun\ngo"


async def test_callbacks_that_raise_do_not_affect_the_call(setup: LibrarySetup) -> None:
    async def fail_on_progress(id: str, update: JsonObject) -> None:
        raise RuntimeError("no display")

    def fail_on_state(id: str, state: CallState) -> None:
        raise RuntimeError("no display")

    async with setup.open() as dispatch:
        blocks = [build_tool_use("1", "Bash", command="echo told")]
        with anyio.fail_after(30):
            running = dispatch.run(blocks, progress=fail_on_progress, on_state=fail_on_state)
            results = [result async for result in running]

    assert [join_text(result) for result in results] == ["told"]


async def test_an_interrupted_command_leaves_no_process_and_has_a_cancelled_result(
    setup: LibrarySetup,
) -> None:
    os.mkfifo(setup.workspace / "pids")
    async with setup.open() as dispatch:
        executor = dispatch.stream()
        executor.add(
            build_tool_use("1", "Bash", command="sleep 600 & echo $$ $! > pids; sleep 600")
        )
        executor.add(build_tool_use("2", "Write", file_path="never", content="x"))
        with anyio.fail_after(30):
            async with await anyio.open_file(setup.workspace / "pids") as pipe:
                pids = [int(pid) for pid in (await pipe.readline()).split()]
            assert executor.interruptible
            executor.interrupt()
            executor.add(build_tool_use("3", "Read", file_path="x"))
            results = await executor.remaining()
        for pid in pids:
            await until_gone(pid)

    expected = (
        "<tool_use_error>The call was cancelled (user_interrupted): the user interrupted it."
        "</tool_use_error>"
    )
    assert [join_text(result) for result in results] == [expected] * 3
    assert not (setup.workspace / "never").exists()
    assert {entry["reason"] for entry in setup.read_journal()} == {"user_interrupted"}


async def test_a_write_that_has_started_finishes_despite_an_interrupt(setup: LibrarySetup) -> None:
    content = "0123456789" * 500_000
    async with setup.open() as dispatch:
        executor = dispatch.stream()
        executor.add(build_tool_use("1", "Write", file_path="big", content=content))
        with anyio.fail_after(30):
            while executor.interruptible:
                await checkpoint()
            executor.interrupt()
            (result,) = await executor.remaining()

    assert "is_error" not in result
    assert (setup.workspace / "big").read_text(encoding="utf-8") == content


async def test_discarding_a_message_cancels_its_calls(setup: LibrarySetup) -> None:
    async with setup.open() as dispatch:
        executor = dispatch.stream()
        executor.add(build_tool_use("1", "Bash", command="sleep 600"))
        executor.discard()
        with anyio.fail_after(30):
            (result,) = await executor.remaining()

    assert "(streaming_fallback): the message that it belonged to was discarded" in join_text(
        result
    )
    assert [entry["reason"] for entry in setup.read_journal()] == ["streaming_fallback"]


async def test_cancelling_the_task_that_reads_results_interrupts_the_calls(
    setup: LibrarySetup,
) -> None:
    os.mkfifo(setup.workspace / "pids")
    async with setup.open() as dispatch:
        pids: list[int] = []
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                command = "echo $$ > pids; sleep 600"
                tasks.start_soon(run_all, dispatch, build_tool_use("1", "Bash", command=command))
                async with await anyio.open_file(setup.workspace / "pids") as pipe:
                    pids.append(int(await pipe.readline()))
                tasks.cancel_scope.cancel()
            await until_gone(pids[0])
            (after,) = await run_all(dispatch, build_tool_use("2", "Bash", command="echo on"))

    assert join_text(after) == "on"


async def test_leaving_the_context_stops_running_calls(setup: LibrarySetup) -> None:
    os.mkfifo(setup.workspace / "pids")
    with anyio.fail_after(30):
        async with setup.open() as dispatch:
            dispatch.stream().add(build_tool_use("1", "Bash", command="echo $$ > pids; sleep 600"))
            async with await anyio.open_file(setup.workspace / "pids") as pipe:
                pid = int(await pipe.readline())
        await until_gone(pid)


async def test_the_largest_results_of_a_message_are_stored_on_disk_first(
    setup: LibrarySetup,
) -> None:
    sizes = [29_900, 29_000, 29_950, 28_000, 29_500, 29_600, 29_700]
    for number, size in enumerate(sizes):
        setup.write_file(f"f{number}", f"{number}" * size)
    blocks = [build_tool_use(str(n), "Bash", command=f"cat f{n}") for n in range(len(sizes))]

    async with setup.open() as dispatch:
        first = await run_all(dispatch, *blocks)
        again = await run_all(dispatch, *blocks)

    kept = [result["tool_use_id"] for result in first if "<persisted-output>" in join_text(result)]
    shrunk = [entry for entry in setup.read_journal() if entry.get("event") == "result_shrunk"]
    assert [each["replaced"][0]["bytes"] for each in shrunk] == [29_950, 29_950]
    assert sum(sizes) > 200_000
    assert kept == ["2"]
    assert first == again


async def test_a_tool_found_by_tool_search_is_defined_in_the_next_turn(setup: LibrarySetup) -> None:
    setup.write_settings({"allow": ["mcp__demo"]}, dispatch={"toolSearch": {"mode": "always"}})
    setup.add_upstream()

    async with setup.open() as dispatch:
        before = dispatch.definitions()
        (search,) = await run_all(
            dispatch, build_tool_use("1", "tool_search", query="select:demo__roll_dice")
        )
        after = dispatch.definitions()
        by_name, by_call_tool = await run_all(
            dispatch,
            build_tool_use("2", "demo__roll_dice", sides=6),
            build_tool_use("3", "call_tool", name="demo__roll_dice", arguments={"sides": 6}),
        )

    names = [each["name"] for each in after]
    assert "demo__roll_dice" in join_text(search)
    assert after[: len(before)] == before
    assert names[len(before) :] == ["demo__roll_dice"]
    assert "is_error" not in by_name
    assert "is_error" not in by_call_tool
    tools = [entry["tool"] for entry in setup.read_journal() if "outcome" in entry]
    assert tools == ["tool_search", "mcp__demo__roll_dice", "mcp__demo__roll_dice"]


async def test_post_tool_batch_hooks_receive_all_calls_of_a_complete_message(
    setup: LibrarySetup,
) -> None:
    context = {"hookEventName": "PostToolBatch", "additionalContext": "well done"}
    output = json.dumps({"hookSpecificOutput": context})
    hook = {"type": "command", "command": f"cat > batch.json; printf '%s' '{output}'"}
    setup.write_settings(ALLOW_ALL, hooks={"PostToolBatch": [{"hooks": [hook]}]})

    async with setup.open() as dispatch:
        executor = dispatch.stream()
        for id in "12":
            executor.add(build_tool_use(id, "Bash", command=f"echo {id}"))
        with anyio.fail_after(30):
            while executor.states["2"] is not CallState.COMPLETED:
                await checkpoint()
            early = executor.completed()
            late = await executor.remaining()

    assert [join_text(result) for result in [*early, *late]] == [
        "1",
        "2\nPostToolBatch hook additional context: well done",
    ]
    hook_input = json.loads((setup.workspace / "batch.json").read_text(encoding="utf-8"))
    assert [call["tool_use_id"] for call in hook_input["tool_calls"]] == ["1", "2"]


async def test_an_exception_inside_the_context_is_raised_unchanged(setup: LibrarySetup) -> None:
    with pytest.raises(ZeroDivisionError):
        async with setup.open():
            raise ZeroDivisionError


async def test_a_missing_workspace_raises_a_start_error(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="nowhere"):
        async with mcp_dispatch.open(workspace=tmp_path / "nowhere", state_dir=tmp_path / "state"):
            raise AssertionError("it was opened")


def test_importing_the_package_loads_no_large_dependency() -> None:
    program = (
        "import sys, mcp_dispatch; print(sorted({'anyio', 'mcp', 'pydantic'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert done.stdout.decode().strip() == "[]"
