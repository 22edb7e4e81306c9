"""Background tasks: output, end, ownership, and cleanup of processes."""

import os
import re
import stat
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import Refusal, RefusedBy
from mcp_dispatch.model.tools import (
    CallContext,
    FileDelivered,
    ToolResult,
    build_error_result,
    build_text_result,
)
from mcp_dispatch.processes import kill_tree
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.tools.bash.background import (
    BackgroundTask,
    BackgroundTasks,
    TaskProcess,
    can_move_to_background,
)
from mcp_dispatch.tools.bash.bash import BashTool
from mcp_dispatch.tools.files.read import ReadTool
from tests.support.stand_ins import PlainScope

PERSISTENT_CHILDREN = """
(echo up >{fifo}; exec sleep 600) &
(trap '' TERM; echo up >{fifo}; sleep 600; sleep 600) &
setsid bash -c 'echo up >{fifo}; exec sleep 600' &
wait
"""
ALICE, BOB = PlainScope(id="alice"), PlainScope(id="bob")


class ObservedTasks(BackgroundTasks):
    """Records when a task ends, and can cancel calls at the moment a command could be moved."""

    def __init__(
        self,
        children: ProcessGroup,
        folder: Path,
        *,
        max_running: int = 20,
        lifetime_ms: int = 1_800_000,
    ) -> None:
        super().__init__(children, folder, max_running=max_running, lifetime_ms=lifetime_ms)
        self.ended: dict[str, anyio.Event] = {}
        self.calls_to_cancel: list[anyio.CancelScope] = []

    def check_capacity(self, scope_id: str) -> str | None:
        for each in self.calls_to_cancel:
            each.cancel()
        return super().check_capacity(scope_id)

    async def adopt(self, task: BackgroundTask, process: TaskProcess) -> None:
        self.ended[task.id] = anyio.Event()
        process.resources.callback(self.ended[task.id].set)
        await super().adopt(task, process)

    async def wait_for_output(self, task_id: str) -> str:
        """Wait for the end of the task and return its output file."""
        with anyio.fail_after(20):
            await self.ended[task_id].wait()
        return (self.folder / f"{task_id}.output").read_text(encoding="utf-8")


class FailingTasks(ObservedTasks):
    """One resource of each task cannot be closed."""

    async def adopt(self, task: BackgroundTask, process: TaskProcess) -> None:
        process.resources.callback(_raise_permission_error)
        await super().adopt(task, process)


def _raise_permission_error() -> None:
    raise PermissionError("not yours")


@dataclass
class BackgroundShell:
    """A Bash tool whose commands can run in the background."""

    children: ProcessGroup
    root: Path
    tasks: ObservedTasks
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    output_limit: int = 5_000_000_000

    def create_tool(self) -> BashTool:
        return BashTool(
            Workspace(self.root),
            self.children,
            self.root.parent / "scratch",
            self.environ,
            self.tasks,
            ResultStore(self.root.parent / "results"),
            output_limit=self.output_limit,
        )

    async def run(self, command: str, scope: PlainScope = ALICE, **more: Json) -> ToolResult:
        arguments: JsonObject = {"command": command, **more}
        with anyio.fail_after(30):
            return await self.create_tool().run(arguments, CallContext("call", scope))

    async def start_task(self, command: str, scope: PlainScope = ALICE, **more: Json) -> str:
        """Start a task and return its id."""
        return get_task_id(await self.run(command, scope, run_in_background=True, **more))

    def create_fifo(self, name: str = "fifo") -> Path:
        path = self.root.parent / name
        os.mkfifo(path)
        return path

    def find_processes(self) -> set[int]:
        return kill_tree.find_processes(set(), kill_tree.build_run_marker(self.children.run_id))


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncGenerator[BackgroundShell]:
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    async with ProcessGroup() as children:
        yield BackgroundShell(children, root, ObservedTasks(children, tmp_path / "tasks"))


def get_task_id(result: ToolResult) -> str:
    match result.response:
        case {"backgroundTaskId": str(task_id)}:
            return task_id
        case _:
            raise AssertionError(result)


def get_text(result: ToolResult) -> str:
    match result.wire["content"]:
        case [{"type": "text", "text": str(text)}]:
            return text
        case other:
            raise AssertionError(other)


async def wait_for_lines(fifo: Path, times: int = 1) -> None:
    """Wait for that many lines in the FIFO, and until earlier output is copied."""
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        received = b""
        with anyio.fail_after(10):
            while received.count(b"\n") < times:
                await anyio.wait_readable(descriptor)
                received += os.read(descriptor, 100)
    finally:
        os.close(descriptor)
    await anyio.wait_all_tasks_blocked()


async def write_line(fifo: Path, line: str) -> None:
    with anyio.fail_after(10):
        await to_thread.run_sync(fifo.write_text, f"{line}\n", "utf-8")


# Started in the background


async def test_the_result_comes_at_once_with_id_output_file_and_how_to_stop_it(
    shell: BackgroundShell,
) -> None:
    result = await shell.run("sleep 600", run_in_background=True)

    task_id = get_task_id(result)
    output = str(shell.root.parent / "tasks" / f"{task_id}.output")
    assert re.fullmatch("b[a-z0-9]{7}", task_id)
    assert result == build_text_result(
        f"Command is running in the background with ID: {task_id}\n"
        f"Output is being written to: {output}\n"
        "Read that file to see what it prints; a last line will say how it ended.\n"
        f'It may run for 30m 0s; to end it earlier, call TaskStop with task_id "{task_id}".',
        response={
            "stdout": "",
            "stderr": "",
            "interrupted": False,
            "backgroundTaskId": task_id,
        },
        changes=(FileDelivered(output),),
    )
    assert shell.tasks.list_running("alice") == (
        BackgroundTask(task_id, "alice", "sleep 600", Path(output)),
    )


async def test_every_task_has_an_id_and_a_private_file_of_its_own(shell: BackgroundShell) -> None:
    first, second = await shell.start_task("sleep 600"), await shell.start_task("sleep 600")

    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in shell.tasks.folder.iterdir()}
    assert first != second
    assert files == {f"{first}.output": 0o600, f"{second}.output": 0o600}
    assert stat.S_IMODE(shell.tasks.folder.stat().st_mode) == 0o700


async def test_read_shows_the_output_while_the_command_runs_and_its_end_after_it(
    shell: BackgroundShell,
) -> None:
    up, go = shell.create_fifo("up"), shell.create_fifo("go")
    read = ReadTool(Workspace(shell.root))

    async def seen() -> str:
        context = CallContext("call", PlainScope(kept={output}))
        checked = await read.check({"file_path": output}, context)
        return get_text(await read.run(checked.arguments, context))

    result = await shell.run(
        f"echo one; echo two >&2; echo x >{up}; read -r line <{go}; echo $line",
        run_in_background=True,
    )
    task_id = get_task_id(result)
    output = str(shell.tasks.folder / f"{task_id}.output")
    assert result.changes == (FileDelivered(output),)
    await wait_for_lines(up)

    assert await seen() == "     1\tone\n     2\ttwo"

    await write_line(go, "three")
    await shell.tasks.wait_for_output(task_id)

    assert await seen() == (
        f"     1\tone\n     2\ttwo\n     3\tthree\n     4\t[Task {task_id} is over: Exit code 0]"
    )
    assert shell.tasks.list_running("alice") == ()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("true", "[Task ID is over: Exit code 0]\n"),
        ("echo a; echo b >&2; exit 3", "a\nb\n[Task ID is over: Exit code 3]\n"),
        ("printf unfinished", "unfinished\n[Task ID is over: Exit code 0]\n"),
        ("kill -9 $$", "[Task ID is over: Exit code 137 (killed by SIGKILL)]\n"),
        ("echo a; echo b > /dev/stderr", "a\nb\n[Task ID is over: Exit code 0]\n"),
        (r"printf 'a\0b\n'", "a\u2400b\n[Task ID is over: Exit code 0]\n"),
        ("cat", "[Task ID is over: Exit code 0]\n"),
    ],
)
async def test_the_output_file_contains_the_output_and_how_the_command_ended(
    shell: BackgroundShell, command: str, expected: str
) -> None:
    task_id = await shell.start_task(command)

    assert await shell.tasks.wait_for_output(task_id) == expected.replace("ID", task_id)


async def test_a_task_ends_with_its_command_although_a_child_holds_the_output(
    shell: BackgroundShell,
) -> None:
    task_id = await shell.start_task("sleep 600 & echo done")

    assert (
        await shell.tasks.wait_for_output(task_id)
        == f"done\n[Task {task_id} is over: Exit code 0]\n"
    )


async def test_a_task_over_its_lifetime_is_terminated_with_its_children(
    shell: BackgroundShell,
) -> None:
    fifo = shell.create_fifo()
    task_id = await shell.start_task(PERSISTENT_CHILDREN.format(fifo=fifo), timeout=1500)
    await wait_for_lines(fifo, times=3)

    received = await shell.tasks.wait_for_output(task_id)

    assert received == f"[Task {task_id} is over: Command timed out after 1.5s]\n"
    assert shell.find_processes() == set()


async def test_a_task_that_prints_too_much_is_terminated_with_a_note_in_its_file(
    shell: BackgroundShell,
) -> None:
    shell.output_limit = 100_000

    task_id = await shell.start_task("yes")

    received = await shell.tasks.wait_for_output(task_id)
    reason = "Command was stopped: it printed more than 100,000 bytes"
    assert received == "y\n" * 50_000 + f"[Task {task_id} is over: {reason}]\n"
    assert shell.find_processes() == set()


@pytest.mark.parametrize(
    ("asked", "milliseconds"),
    [(None, 1_800_000), (5, 5), (3_000_000, 3_000_000), (1e12, 7_200_000)],
)
async def test_the_lifetime_of_a_task_is_bounded(
    shell: BackgroundShell, asked: float | None, milliseconds: int
) -> None:
    arguments: JsonObject = {} if asked is None else {"timeout": asked}

    assert shell.create_tool().parse_lifetime_ms(arguments) == milliseconds


async def test_a_task_starts_in_the_cwd_of_the_scope_and_does_not_change_it(
    shell: BackgroundShell,
) -> None:
    inside = shell.root / "sub"
    inside.mkdir()

    result = await shell.run("pwd; cd ..", PlainScope(cwd=inside), run_in_background=True)

    received = await shell.tasks.wait_for_output(get_task_id(result))
    assert received.splitlines()[0] == str(inside)
    assert [type(change) for change in result.changes] == [FileDelivered]


async def test_a_task_has_the_same_environment_as_any_command(
    shell: BackgroundShell, tmp_path: Path
) -> None:
    own = tmp_path / "own env"
    own.write_text("greeting=hello\n", encoding="utf-8")
    shell.environ |= {"BASH_ENV": str(own), "MCP_DISPATCH_TOKEN": "secret"}

    task_id = await shell.start_task(
        'echo "$greeting|${!DISPATCH*}|${MCP_DISPATCH_TOKEN-unset}|$CLAUDECODE"'
    )

    assert (await shell.tasks.wait_for_output(task_id)).splitlines()[0] == "hello||unset|1"


async def test_a_command_that_cannot_start_leaves_no_task(shell: BackgroundShell) -> None:
    shell.environ = {"PATH": "/nowhere"}

    result = await shell.run("true", run_in_background=True)

    assert result == build_error_result(
        "cannot start 'bash': no such executable; install it, or correct the name or PATH"
    )
    assert shell.tasks.list_running("alice") == ()
    assert list(shell.tasks.folder.iterdir()) == []


async def test_tasks_leave_no_descriptor_open(shell: BackgroundShell) -> None:
    async def a_few() -> int:
        for command in ("true", "exit 3"):
            await shell.tasks.wait_for_output(await shell.start_task(command))
        await shell.tasks.stop("alice", await shell.start_task("sleep 600"))
        await shell.tasks.wait_for_output(
            get_task_id(await shell.run("tail -f /dev/null", timeout=1))
        )
        await anyio.wait_all_tasks_blocked()
        return len(list(Path("/proc/self/fd").iterdir()))

    shell.tasks.lifetime_ms = 1
    before = await a_few()

    assert [await a_few() for _ in range(3)] == [before] * 3


async def test_the_description_explains_background_tasks(
    shell: BackgroundShell,
) -> None:
    description = str(shell.create_tool().definition["description"])

    (line,) = (line for line in description.splitlines() if "run_in_background" in line)
    assert "Read" in line
    assert "TaskStop" in line
    assert "(default 1,800,000, at most 7,200,000)" in line
    assert (
        shell.create_tool().validator.find_problems({"command": "x", "run_in_background": "yes"})
        != []
    )
    assert (
        shell.create_tool().validator.find_problems({"command": "x", "run_in_background": True})
        == []
    )


# Capacity and ownership


async def test_one_task_over_the_maximum_is_refused_before_the_approval(
    shell: BackgroundShell,
) -> None:
    shell.tasks = ObservedTasks(shell.children, shell.tasks.folder, max_running=2)
    first = await shell.start_task("sleep 600")
    second = await shell.start_task(f"sleep  601\n# {'x' * 100}")
    message = (
        "2 background tasks are running, and no more are allowed; stop one with TaskStop first:"
        f" {first} (sleep 600), {second} (sleep 601 # {'x' * 67}…)"
    )
    arguments: JsonObject = {"command": "sleep 602", "run_in_background": True}

    with pytest.raises(Refused) as caught:
        await shell.create_tool().check(arguments, CallContext("call", ALICE))

    assert caught.value.refusal == Refusal(RefusedBy.SEMANTIC, message)
    assert await shell.run("sleep 602", run_in_background=True) == build_error_result(message)
    assert get_text(await shell.run("echo in the foreground")) == "in the foreground"
    assert [task.id for task in shell.tasks.list_running("alice")] == [first, second]


async def test_tasks_of_other_scopes_and_ended_tasks_do_not_count(shell: BackgroundShell) -> None:
    shell.tasks = ObservedTasks(shell.children, shell.tasks.folder, max_running=1)
    first = await shell.start_task("sleep 600", ALICE)

    bobs = await shell.start_task("sleep 600", BOB)
    await shell.tasks.stop("alice", first)
    again = await shell.start_task("sleep 600", ALICE)

    assert [task.id for task in shell.tasks.list_running("alice")] == [again]
    assert [task.id for task in shell.tasks.list_running("bob")] == [bobs]


async def test_a_scope_cannot_stop_the_task_of_another_scope(shell: BackgroundShell) -> None:
    task_id = await shell.start_task("sleep 600", ALICE)

    stopped = await shell.tasks.stop("bob", task_id)

    assert stopped is None
    assert [task.id for task in shell.tasks.list_running("alice")] == [task_id]
    assert await shell.tasks.stop("alice", task_id) is not None


# Termination


async def test_stopping_a_task_kills_children_that_left_the_session_or_ignore_sigterm(
    shell: BackgroundShell,
) -> None:
    fifo = shell.create_fifo()
    task_id = await shell.start_task(PERSISTENT_CHILDREN.format(fifo=fifo))
    await wait_for_lines(fifo, times=3)
    assert len(shell.find_processes()) >= 4

    with anyio.fail_after(10):
        task = await shell.tasks.stop("alice", task_id)

    assert task is not None
    assert task.id == task_id
    assert shell.find_processes() == set()
    assert await shell.tasks.wait_for_output(task_id) == (
        f"[Task {task_id} is over: Command was stopped: TaskStop ended it]\n"
    )
    assert await shell.tasks.stop("alice", task_id) is None


async def test_the_end_of_a_scope_ends_its_tasks_and_no_others(shell: BackgroundShell) -> None:
    mine = [await shell.start_task("echo hi; sleep 600", ALICE) for _ in range(2)]
    theirs = await shell.start_task("sleep 600", BOB)

    with anyio.fail_after(10):
        await shell.tasks.end_scope("alice")

    assert shell.tasks.list_running("alice") == ()
    assert [task.id for task in shell.tasks.list_running("bob")] == [theirs]
    assert len(shell.find_processes()) == 1
    for task_id in mine:
        assert (await shell.tasks.wait_for_output(task_id)).endswith(
            f"[Task {task_id} is over: Command was stopped: its session ended]\n"
        )


async def test_no_task_outlives_the_server(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    fifo = root / "fifo"
    os.mkfifo(fifo)

    async with ProcessGroup() as children:
        shell = BackgroundShell(children, root, ObservedTasks(children, root / "tasks"))
        task_id = await shell.start_task(PERSISTENT_CHILDREN.format(fifo=fifo))
        await wait_for_lines(fifo, times=3)

    assert shell.find_processes() == set()
    assert (await shell.tasks.wait_for_output(task_id)).startswith(f"[Task {task_id} is over: ")


async def test_a_call_that_is_cancelled_while_it_starts_leaves_no_task(
    shell: BackgroundShell,
) -> None:
    with anyio.CancelScope() as call:
        call.cancel()
        await shell.run("sleep 600", run_in_background=True)

    assert call.cancelled_caught
    assert len(shell.tasks.ended) == 1
    assert (shell.tasks.list_running("alice"), shell.find_processes()) == ((), set())


# Moved on timeout


async def test_a_command_that_times_out_continues_in_the_background(shell: BackgroundShell) -> None:
    go = shell.create_fifo()

    result = await shell.run(f"echo before; read -r line <{go}; echo after $line", timeout=2000)

    task_id = get_task_id(result)
    output = str(shell.tasks.folder / f"{task_id}.output")
    assert result == build_text_result(
        "Command did not complete within its 2s timeout and was moved to the background with"
        f" ID: {task_id}\n"
        f"Output is being written to: {output}\n"
        "Read that file to see what it prints; a last line will say how it ended.\n"
        f'It may run for 30m 0s; to end it earlier, call TaskStop with task_id "{task_id}".\n'
        "Output so far:\nbefore",
        response={
            "stdout": "before",
            "stderr": "",
            "interrupted": False,
            "timedOutAfterMs": 2000,
            "backgroundTaskId": task_id,
        },
        changes=(FileDelivered(output),),
    )
    assert [task.id for task in shell.tasks.list_running("alice")] == [task_id]

    await write_line(go, "all")

    assert await shell.tasks.wait_for_output(task_id) == (
        f"before\nafter all\n[Task {task_id} is over: Exit code 0]\n"
    )


async def test_a_moved_command_without_output_shows_none(shell: BackgroundShell) -> None:
    result = await shell.run("tail -f /dev/null", timeout=500)

    assert get_text(result).splitlines()[0] == (
        "Command did not complete within its 0.5s timeout and was moved to the background with"
        f" ID: {get_task_id(result)}"
    )
    assert get_text(result).endswith(f'call TaskStop with task_id "{get_task_id(result)}".')


async def test_a_moved_command_keeps_the_cwd_and_leaves_only_its_output_file(
    shell: BackgroundShell,
) -> None:
    go = shell.create_fifo()
    (shell.root / "sub").mkdir()

    result = await shell.run(f"cd sub; read -r line <{go}", timeout=1000)
    await write_line(go, "on")
    await shell.tasks.wait_for_output(get_task_id(result))

    assert [type(change) for change in result.changes] == [FileDelivered]
    assert list((shell.root.parent / "scratch").iterdir()) == []
    assert [path.name for path in shell.tasks.folder.iterdir()] == [f"{get_task_id(result)}.output"]


async def test_a_moved_command_gets_the_lifetime_of_a_task(shell: BackgroundShell) -> None:
    shell.tasks.lifetime_ms = 300

    task_id = get_task_id(await shell.run("tail -f /dev/null", timeout=300))

    assert await shell.tasks.wait_for_output(task_id) == (
        f"[Task {task_id} is over: Command timed out after 0.3s]\n"
    )
    assert shell.find_processes() == set()


def failed_command(text: str, response: Json) -> ToolResult:
    """Return the result of a failed command; its text is foreign."""
    return replace(build_error_result(text, response=response), foreign=True)


async def test_a_command_that_times_out_without_free_capacity_is_terminated(
    shell: BackgroundShell,
) -> None:
    shell.tasks = ObservedTasks(shell.children, shell.tasks.folder, max_running=1)
    task_id = await shell.start_task("sleep 600")

    result = await shell.run("tail -f /dev/null", timeout=300)

    assert result == failed_command(
        "Command timed out after 0.3s and was ended: 1 background tasks are running, and no more"
        f" are allowed; stop one with TaskStop first: {task_id} (sleep 600)",
        response={"stdout": "", "stderr": "", "interrupted": True, "timedOutAfterMs": 300},
    )
    assert [path.name for path in shell.tasks.folder.iterdir()] == [f"{task_id}.output"]
    assert len(shell.find_processes()) == 1


@pytest.mark.parametrize("command", ["sleep 600; echo git", "(tail -f /dev/null)"])
async def test_a_command_that_may_not_be_moved_is_terminated(
    shell: BackgroundShell, command: str
) -> None:
    result = await shell.run(command, timeout=300)

    assert result == failed_command(
        "Command timed out after 0.3s",
        response={"stdout": "", "stderr": "", "interrupted": True, "timedOutAfterMs": 300},
    )
    assert list(shell.tasks.folder.iterdir()) == []
    assert shell.find_processes() == set()


@pytest.mark.parametrize(
    ("command", "moves"),
    [
        ("npm run build 2>&1 | tail -20", True),
        ("cd src && make -j4", True),
        ("make; sleep 5", True),
        ("sleepwalk", True),
        ("ls .github && cat legit", True),
        ("X=1", True),
        ("sleep 5", False),
        ("  sleep 5 && make", False),
        ("X=1 sleep 5", False),
        ("/bin/sleep 5", False),
        ("'sleep' 5", False),
        ("git push", False),
        ("cd repo && git push", False),
        ("/usr/bin/git status", False),
        ("g'i't push", False),
        ("echo git", False),
        ("X=git; $X push", False),
        ("for i in 1 2; do make; done", False),
        ("echo $(make)", False),
        ("(make)", False),
        ("echo 'unfinished", False),
        ("make \\\nall", False),
        ("", False),
        (f"echo {'x' * 10_000}", False),
    ],
)
def test_which_commands_may_be_moved(command: str, moves: bool) -> None:
    assert can_move_to_background(command) is moves


async def test_a_call_that_is_cancelled_while_its_command_moves_leaves_no_task(
    shell: BackgroundShell,
) -> None:
    with anyio.CancelScope() as call:
        shell.tasks.calls_to_cancel.append(call)
        await shell.run("echo a; tail -f /dev/null", timeout=1000)

    (task_id,) = shell.tasks.ended
    assert call.cancelled_caught
    assert (shell.tasks.list_running("alice"), shell.find_processes()) == ((), set())
    assert await shell.tasks.wait_for_output(task_id) == (
        f"a\n[Task {task_id} is over: Command was stopped: its call was cancelled]\n"
    )


async def test_a_command_cancelled_at_any_moment_is_either_a_task_or_gone(
    shell: BackgroundShell,
) -> None:
    for milliseconds in range(40, 60, 2):
        results: list[ToolResult] = []
        with anyio.move_on_after(0.05):
            results.append(await shell.run("tail -f /dev/null", timeout=milliseconds))

        running = [task.id for task in shell.tasks.list_running("alice")]
        assert running == [get_task_id(result) for result in results]
        assert bool(shell.find_processes()) is bool(results)
        await shell.tasks.end_scope("alice")


# Output files


async def test_only_output_files_of_a_week_ago_are_removed(shell: BackgroundShell) -> None:
    folder = shell.tasks.folder
    folder.mkdir()
    week = 7 * 24 * 3600
    ages = {"b0000000.output": week + 60, "b0000001.output": week - 60, "notes.txt": week + 60}
    for name, age in ages.items():
        (folder / name).touch()
        os.utime(folder / name, (time.time() - age, time.time() - age))

    removed = shell.tasks.remove_old_outputs()

    assert removed == 1
    assert sorted(path.name for path in folder.iterdir()) == ["b0000001.output", "notes.txt"]


async def test_without_an_output_folder_nothing_is_removed(shell: BackgroundShell) -> None:
    assert shell.tasks.remove_old_outputs() == 0


async def test_a_folder_reached_by_a_link_gives_real_paths(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    tasks = BackgroundTasks(ProcessGroup(), tmp_path / "link" / "tasks")

    assert (
        tasks.create_task("alice", "true").output_path.parent
        == tmp_path.resolve() / "real" / "tasks"
    )


async def test_resources_that_cannot_be_closed_do_not_harm_the_server(
    shell: BackgroundShell,
) -> None:
    shell.tasks = FailingTasks(shell.children, shell.tasks.folder)

    task_id = await shell.start_task("true")

    assert await shell.tasks.wait_for_output(task_id) == f"[Task {task_id} is over: Exit code 0]\n"
    assert shell.tasks.list_running("alice") == ()
    assert get_text(await shell.run("echo still here")) == "still here"
