"""The pipeline as a Python library: real tools, real files, real processes."""

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


class Place:
    """A workspace, settings and a state directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.servers: list[Path] = []
        self.settings = folder / "settings.json"
        self.use(ALLOW_ALL)

    def use(self, permissions: dict[str, Sequence[str]], **more: Any) -> None:
        content = {"permissions": permissions, **more}
        self.settings.write_text(json.dumps(content), encoding="utf-8")

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.workspace / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def upstream(self) -> None:
        """The demo server, whose tools wait behind `tool_search`."""
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

    def journal(self) -> list[dict[str, Any]]:
        files = sorted((self.folder / "state" / "journal").glob("*.jsonl"))
        return [
            json.loads(line)
            for file in files
            for line in file.read_text(encoding="utf-8").splitlines()
        ]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def use(id: str, name: str, /, **given: Json) -> JsonObject:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def join_text(result: ToolResultBlock) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


async def run_all(dispatch: Dispatch, *blocks: JsonObject) -> list[ToolResultBlock]:
    with anyio.fail_after(60):
        return [result async for result in dispatch.run(blocks)]


async def test_definitions_are_in_the_form_and_order_the_api_caches(place: Place) -> None:
    async with place.open() as dispatch:
        first, second = dispatch.definitions(), dispatch.definitions()

    assert [each["name"] for each in first] == list(BUILT_INS)
    assert json.dumps(first) == json.dumps(second)
    assert all(list(each) == ["name", "description", "input_schema"] for each in first)


async def test_a_whole_message_gives_a_result_for_each_call_in_order(place: Place) -> None:
    place.file("a.txt", "alpha")
    place.file("dot.png", PNG)

    async with place.open() as dispatch:
        found = await run_all(
            dispatch,
            {"type": "text", "text": "I will look."},
            use("1", "Read", file_path="a.txt"),
            use("2", "Read", file_path="dot.png"),
            use("3", "Edit", file_path="a.txt", old_string="alpha", new_string="beta"),
            use("4", "Read", file_path="a.txt"),
            {"type": "server_tool_use", "id": "5", "name": "web_search", "input": {}},
        )

    assert [result["tool_use_id"] for result in found] == ["1", "2", "3", "4"]
    assert all("is_error" not in result for result in found)
    assert "alpha" in join_text(found[0])
    image = found[1]["content"]
    assert isinstance(image, list)
    assert [block["type"] for block in image if isinstance(block, dict)][-1] == "image"
    assert "beta" in join_text(found[3])


async def test_whatever_is_wrong_with_a_call_is_told_in_its_result(place: Place) -> None:
    place.use({"deny": ["Read(./.env)"], "allow": ["Bash"]})
    place.file(".env", "SECRET=1")

    async with place.open() as dispatch:
        found = await run_all(
            dispatch,
            use("1", "Nope"),
            use("2", "Read", path="a"),
            use("3", "Read", file_path=".env"),
            {"type": "tool_use", "id": "4", "name": "Read", "input": "not an object"},
            {"type": "tool_use", "id": "5", "name": "Read", "input": {"file_path": "\ud800"}},
            use("6", "Bash", command="exit 3"),
            use("7", "Bash", command="true"),
            {"type": "tool_use", "id": "8", "name": None, "input": {}},
        )

    told = [join_text(result) for result in found]
    assert all(result.get("is_error") is True for result in found)
    assert "Nope" in told[0]
    assert "InputValidationError" in told[1]
    assert "a deny rule forbids it (Read(./.env)" in told[2]
    assert "it must be an object, got str" in told[3]
    assert "InputValidationError" in told[4]
    assert told[5].startswith("Exit code 3")
    assert told[6] == (
        "<tool_use_error>The call was cancelled (sibling_error): Bash `exit 3`, which was called "
        "together with it, failed; this call did not run.</tool_use_error>"
    )
    assert "None" in told[7]
    assert [
        entry.get("reason") for entry in place.journal() if entry["outcome"] == "cancelled"
    ] == ["sibling_error"]


async def test_a_block_without_an_id_is_an_error_of_the_program(place: Place) -> None:
    async with place.open() as dispatch:
        with pytest.raises(ValueError, match="needs an id"):
            dispatch.stream().add({"type": "tool_use", "name": "Read", "input": {}})


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (True, "made"),
        (Approved(), "made"),
        (False, "the user refused"),
        (Declined("use make"), "use make"),
        (RuntimeError("no terminal"), "the question could not be put: no terminal"),
    ],
)
async def test_a_person_is_asked_by_the_program(
    place: Place, reply: bool | Approved | Declined | Exception, told: str
) -> None:
    place.use({})
    asked: list[Question] = []

    async def ask(question: Question) -> bool | Approved | Declined:
        asked.append(question)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async with place.open(ask) as dispatch:
        (result,) = await run_all(dispatch, use("1", "Bash", command="touch x && echo made"))

    assert [question.tool for question in asked] == ["Bash"]
    assert told in join_text(result)
    assert (place.workspace / "x").exists() is (told == "made")


async def test_results_come_in_order_while_the_message_is_still_being_written(
    place: Place,
) -> None:
    os.mkfifo(place.workspace / "gate")
    place.file("b.txt", "second")
    states: list[tuple[str, CallState]] = []

    async with place.open() as dispatch:
        executor = dispatch.stream(on_state=lambda id, state: states.append((id, state)))
        executor.add(use("1", "Bash", command="cat gate"))
        executor.add(use("2", "Read", file_path="b.txt"))
        with anyio.fail_after(30):
            while executor.states["2"] is not CallState.COMPLETED:
                await checkpoint()
        early = executor.completed()
        assert executor.states == {"1": CallState.EXECUTING, "2": CallState.COMPLETED}
        executor.add(use("3", "Write", file_path="c.txt", content="third"))
        assert executor.states["3"] is CallState.QUEUED
        async with await anyio.open_file(place.workspace / "gate", "w") as gate:
            await gate.write("first")
        with anyio.fail_after(30):
            found = await executor.remaining()

    assert early == []
    assert [result["tool_use_id"] for result in found] == ["1", "2", "3"]
    assert join_text(found[0]) == "first"
    assert set(executor.states.values()) == {CallState.DELIVERED}
    assert [state for id, state in states if id == "3"] == [
        CallState.EXECUTING,
        CallState.COMPLETED,
        CallState.DELIVERED,
    ]


async def test_progress_is_told_at_once(place: Place) -> None:
    os.mkfifo(place.workspace / "gate")
    heard: list[str] = []

    async with place.open() as dispatch:

        async def note(id: str, update: JsonObject) -> None:
            heard.append(id)
            async with await anyio.open_file(place.workspace / "gate", "w") as gate:
                await gate.write("go")

        with anyio.fail_after(60):
            blocks = [use("1", "Bash", command="echo begun; cat gate")]
            found = [result async for result in dispatch.run(blocks, progress=note)]

    assert heard[:1] == ["1"]
    assert join_text(found[0]) == "begun\ngo"


async def test_what_the_program_does_with_news_harms_no_call(place: Place) -> None:
    async def refuse(id: str, update: JsonObject) -> None:
        raise RuntimeError("no display")

    def refuse_too(id: str, state: CallState) -> None:
        raise RuntimeError("no display")

    async with place.open() as dispatch:
        blocks = [use("1", "Bash", command="echo told")]
        with anyio.fail_after(30):
            running = dispatch.run(blocks, progress=refuse, on_state=refuse_too)
            found = [result async for result in running]

    assert [join_text(result) for result in found] == ["told"]


async def test_an_interrupted_command_leaves_no_process_and_says_so(place: Place) -> None:
    os.mkfifo(place.workspace / "pids")
    async with place.open() as dispatch:
        executor = dispatch.stream()
        executor.add(use("1", "Bash", command="sleep 600 & echo $$ $! > pids; sleep 600"))
        executor.add(use("2", "Write", file_path="never", content="x"))
        with anyio.fail_after(30):
            async with await anyio.open_file(place.workspace / "pids") as pipe:
                pids = [int(pid) for pid in (await pipe.readline()).split()]
            assert executor.interruptible
            executor.interrupt()
            executor.add(use("3", "Read", file_path="x"))
            found = await executor.remaining()
        for pid in pids:
            await until_gone(pid)

    synthetic = (
        "<tool_use_error>The call was cancelled (user_interrupted): the user interrupted it."
        "</tool_use_error>"
    )
    assert [join_text(result) for result in found] == [synthetic] * 3
    assert not (place.workspace / "never").exists()
    assert {entry["reason"] for entry in place.journal()} == {"user_interrupted"}


async def test_a_write_that_has_begun_is_finished_whatever_is_interrupted(place: Place) -> None:
    content = "0123456789" * 500_000
    async with place.open() as dispatch:
        executor = dispatch.stream()
        executor.add(use("1", "Write", file_path="big", content=content))
        with anyio.fail_after(30):
            while executor.interruptible:
                await checkpoint()
            executor.interrupt()
            (result,) = await executor.remaining()

    assert "is_error" not in result
    assert (place.workspace / "big").read_text(encoding="utf-8") == content


async def test_a_discarded_message_takes_its_calls_along(place: Place) -> None:
    async with place.open() as dispatch:
        executor = dispatch.stream()
        executor.add(use("1", "Bash", command="sleep 600"))
        executor.discard()
        with anyio.fail_after(30):
            (result,) = await executor.remaining()

    assert "(streaming_fallback): the message that it belonged to was discarded" in join_text(
        result
    )
    assert [entry["reason"] for entry in place.journal()] == ["streaming_fallback"]


async def test_cancelling_the_task_that_reads_results_interrupts_the_calls(place: Place) -> None:
    os.mkfifo(place.workspace / "pids")
    async with place.open() as dispatch:
        pids: list[int] = []
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                command = "echo $$ > pids; sleep 600"
                tasks.start_soon(run_all, dispatch, use("1", "Bash", command=command))
                async with await anyio.open_file(place.workspace / "pids") as pipe:
                    pids.append(int(await pipe.readline()))
                tasks.cancel_scope.cancel()
            await until_gone(pids[0])
            (after,) = await run_all(dispatch, use("2", "Bash", command="echo on"))

    assert join_text(after) == "on"


async def test_the_end_of_the_block_stops_what_still_runs(place: Place) -> None:
    os.mkfifo(place.workspace / "pids")
    with anyio.fail_after(30):
        async with place.open() as dispatch:
            dispatch.stream().add(use("1", "Bash", command="echo $$ > pids; sleep 600"))
            async with await anyio.open_file(place.workspace / "pids") as pipe:
                pid = int(await pipe.readline())
        await until_gone(pid)


async def test_the_largest_results_of_a_message_are_kept_on_disk_first(place: Place) -> None:
    sizes = [29_900, 29_000, 29_950, 28_000, 29_500, 29_600, 29_700]
    for number, size in enumerate(sizes):
        place.file(f"f{number}", f"{number}" * size)
    blocks = [use(str(n), "Bash", command=f"cat f{n}") for n in range(len(sizes))]

    async with place.open() as dispatch:
        first = await run_all(dispatch, *blocks)
        again = await run_all(dispatch, *blocks)

    kept = [result["tool_use_id"] for result in first if "<persisted-output>" in join_text(result)]
    shrunk = [entry for entry in place.journal() if entry.get("event") == "result_shrunk"]
    assert [each["replaced"][0]["bytes"] for each in shrunk] == [29_950, 29_950]
    assert sum(sizes) > 200_000
    assert kept == ["2"]
    assert first == again


async def test_what_tool_search_finds_is_defined_in_the_next_turn(place: Place) -> None:
    place.use({"allow": ["mcp__demo"]}, dispatch={"toolSearch": {"mode": "always"}})
    place.upstream()

    async with place.open() as dispatch:
        before = dispatch.definitions()
        (search,) = await run_all(dispatch, use("1", "tool_search", query="select:demo__roll_dice"))
        after = dispatch.definitions()
        by_name, enveloped = await run_all(
            dispatch,
            use("2", "demo__roll_dice", sides=6),
            use("3", "call_tool", name="demo__roll_dice", arguments={"sides": 6}),
        )

    names = [each["name"] for each in after]
    assert "demo__roll_dice" in join_text(search)
    assert after[: len(before)] == before
    assert names[len(before) :] == ["demo__roll_dice"]
    assert "is_error" not in by_name
    assert "is_error" not in enveloped
    tools = [entry["tool"] for entry in place.journal() if "outcome" in entry]
    assert tools == ["tool_search", "mcp__demo__roll_dice", "mcp__demo__roll_dice"]


async def test_hooks_hear_of_all_calls_of_a_message_when_it_is_complete(place: Place) -> None:
    context = {"hookEventName": "PostToolBatch", "additionalContext": "well done"}
    told = json.dumps({"hookSpecificOutput": context})
    hook = {"type": "command", "command": f"cat > batch.json; printf '%s' '{told}'"}
    place.use(ALLOW_ALL, hooks={"PostToolBatch": [{"hooks": [hook]}]})

    async with place.open() as dispatch:
        executor = dispatch.stream()
        for id in "12":
            executor.add(use(id, "Bash", command=f"echo {id}"))
        with anyio.fail_after(30):
            while executor.states["2"] is not CallState.COMPLETED:
                await checkpoint()
            early = executor.completed()
            late = await executor.remaining()

    assert [join_text(result) for result in [*early, *late]] == [
        "1",
        "2\nPostToolBatch hook additional context: well done",
    ]
    heard = json.loads((place.workspace / "batch.json").read_text(encoding="utf-8"))
    assert [call["tool_use_id"] for call in heard["tool_calls"]] == ["1", "2"]


async def test_an_exception_of_the_program_comes_out_as_it_is(place: Place) -> None:
    with pytest.raises(ZeroDivisionError):
        async with place.open():
            raise ZeroDivisionError


async def test_flags_that_cannot_be_used_say_so_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="nowhere"):
        async with mcp_dispatch.open(workspace=tmp_path / "nowhere", state_dir=tmp_path / "state"):
            raise AssertionError("it was opened")


def test_importing_the_package_costs_nothing_until_it_is_opened() -> None:
    program = (
        "import sys, mcp_dispatch; print(sorted({'anyio', 'mcp', 'pydantic'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert done.stdout.decode().strip() == "[]"
