"""TaskStop: terminates a task of the calling scope; unknown ids are refused with a list."""

import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import Refusal, RefusedBy
from mcp_dispatch.model.tools import (
    CallContext,
    Interrupt,
    Sharing,
    Tool,
    ToolResult,
    build_error_result,
    build_text_result,
)
from mcp_dispatch.processes import kill_tree
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.tools.bash.background import BackgroundTasks
from mcp_dispatch.tools.bash.bash import BashTool
from mcp_dispatch.tools.bash.task_stop import TASK_STOP_ALIASES, TaskStopTool
from tests.support.stand_ins import PlainScope

ALICE = CallContext("call", PlainScope(id="alice"))
BOB = CallContext("call", PlainScope(id="bob"))


@dataclass
class TaskTools:
    """Bash and TaskStop with the same tasks."""

    children: ProcessGroup
    tasks: BackgroundTasks
    bash: BashTool
    stop: TaskStopTool

    async def start_task(self, command: str, context: CallContext = ALICE) -> str:
        arguments: JsonObject = {"command": command, "run_in_background": True}
        result = await self.bash.run(arguments, context)
        assert isinstance(result.response, dict)
        return str(result.response["backgroundTaskId"])

    async def call(self, arguments: JsonObject, context: CallContext = ALICE) -> ToolResult:
        with anyio.fail_after(10):
            checked = await self.stop.check(arguments, context)
            return await self.stop.run(checked.arguments, context)

    async def get_refusal(self, arguments: JsonObject, context: CallContext = ALICE) -> Refusal:
        with pytest.raises(Refused) as caught:
            await self.stop.check(arguments, context)
        return caught.value.refusal

    def find_processes(self) -> set[int]:
        return kill_tree.find_processes(set(), kill_tree.build_run_marker(self.children.run_id))


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncGenerator[TaskTools]:
    root = tmp_path.resolve()
    async with ProcessGroup() as children:
        tasks = BackgroundTasks(children, root / "tasks")
        bash = BashTool(
            Workspace(root), children, root / "scratch", os.environ, tasks, ResultStore(root)
        )
        yield TaskTools(children, tasks, bash, TaskStopTool(tasks))


@pytest.mark.parametrize("key", ["task_id", "shell_id"])
async def test_a_task_is_stopped_and_named_in_the_result(tools: TaskTools, key: str) -> None:
    task_id = await tools.start_task("sleep 600")

    result = await tools.call({key: task_id})

    text = (
        f"Stopped task {task_id} (sleep 600). Its output is in"
        f" {tools.tasks.folder / f'{task_id}.output'}"
    )
    assert result == build_text_result(
        text,
        response={
            "message": text,
            "task_id": task_id,
            "task_type": "local_bash",
            "command": "sleep 600",
        },
    )
    assert tools.find_processes() == set()
    assert tools.tasks.list_running("alice") == ()


async def test_shell_id_becomes_task_id_before_rules_and_hooks(tools: TaskTools) -> None:
    task_id = await tools.start_task("sleep 600")

    checked = await tools.stop.check({"shell_id": task_id}, ALICE)

    assert checked.arguments == {"task_id": task_id}


async def test_an_unknown_id_is_refused_with_the_running_tasks(tools: TaskTools) -> None:
    first = await tools.start_task("sleep 600")
    second = await tools.start_task("sleep 601")

    refusal = await tools.get_refusal({"task_id": "bash_1"})

    assert refusal == Refusal(
        RefusedBy.SEMANTIC,
        "no task with the ID 'bash_1' is running: it has ended, or never was one of yours;"
        f" running now: {first} (sleep 600), {second} (sleep 601)",
    )


async def test_the_task_of_another_scope_is_unknown(tools: TaskTools) -> None:
    task_id = await tools.start_task("sleep 600", ALICE)

    refusal = await tools.get_refusal({"task_id": task_id}, BOB)
    result = await tools.stop.run({"task_id": task_id}, BOB)

    message = (
        f"no task with the ID '{task_id}' is running: it has ended, or never was one of yours;"
        " none is running now"
    )
    assert refusal == Refusal(RefusedBy.SEMANTIC, message)
    assert result == build_error_result(message)
    assert [task.id for task in tools.tasks.list_running("alice")] == [task_id]


async def test_a_task_that_has_ended_cannot_be_stopped_again(tools: TaskTools) -> None:
    task_id = await tools.start_task("sleep 600")
    await tools.call({"task_id": task_id})

    message = (
        f"no task with the ID '{task_id}' is running: it has ended, or never was one of yours;"
        " none is running now"
    )
    assert await tools.get_refusal({"task_id": task_id}) == Refusal(RefusedBy.SEMANTIC, message)
    assert await tools.stop.run({"task_id": task_id}, ALICE) == build_error_result(message)


async def test_two_calls_that_stop_the_same_task_both_succeed(tools: TaskTools) -> None:
    task_id = await tools.start_task("trap '' TERM; echo; sleep 600; sleep 600")
    results: list[ToolResult] = []

    async def stop() -> None:
        results.append(await tools.call({"task_id": task_id}))

    async with anyio.create_task_group() as both:
        both.start_soon(stop)
        both.start_soon(stop)

    assert [result.is_error for result in results] == [False, False]
    assert tools.find_processes() == set()


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ({}, "neither task_id nor shell_id"),
        ({"task_id": "a", "shell_id": "b"}, "both task_id and shell_id"),
    ],
)
async def test_exactly_one_id_is_needed(
    tools: TaskTools, arguments: JsonObject, given: str
) -> None:
    assert await tools.get_refusal(arguments) == Refusal(
        RefusedBy.SEMANTIC,
        f"expected one ID, got {given}; give the task_id that Bash answered with",
    )


@pytest.mark.parametrize("task_id", ["../../etc/passwd", "\0", "", "x" * 10_000, "\ud800", "b\n*"])
async def test_an_unusual_id_is_an_unknown_id(tools: TaskTools, task_id: str) -> None:
    refusal = await tools.get_refusal({"task_id": task_id})

    assert refusal.by is RefusedBy.SEMANTIC
    assert refusal.message.isprintable()
    assert len(refusal.message) < 300


async def test_task_stop_is_shared_and_not_interrupted_and_declares_itself_destructive(
    tools: TaskTools,
) -> None:
    tool: Tool = tools.stop

    assert tool.decide_sharing({"task_id": "b0000000"}) is Sharing.SHARED
    assert tool.interrupt is Interrupt.BLOCK
    assert tool.definition["annotations"] == {
        "title": "Stop a background task",
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert tool.validator.find_problems({"task_id": 1}) != []
    assert tool.validator.find_problems({"task_id": "b0000000"}) == []


async def test_the_former_names_are_aliases_of_the_tool(tools: TaskTools) -> None:
    assert {"KillShell": tools.stop.name, "KillBash": tools.stop.name} == TASK_STOP_ALIASES
