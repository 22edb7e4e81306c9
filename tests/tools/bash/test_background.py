"""Commands in the background: what they print, how they end, whose they are, that none is left."""

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

STUBBORN = """
(echo up >{fifo}; exec sleep 600) &
(trap '' TERM; echo up >{fifo}; sleep 600; sleep 600) &
setsid bash -c 'echo up >{fifo}; exec sleep 600' &
wait
"""
ALICE, BOB = PlainScope(id="alice"), PlainScope(id="bob")


class NoticedTasks(BackgroundTasks):
    """Tells when a task is over, and of each moment in which a command could be moved."""

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

    async def last_words(self, task_id: str) -> str:
        """The whole of its output file, once the task is over."""
        with anyio.fail_after(20):
            await self.ended[task_id].wait()
        return (self.folder / f"{task_id}.output").read_text(encoding="utf-8")


class TroubledTasks(NoticedTasks):
    """Something that belongs to a task cannot be put away."""

    async def adopt(self, task: BackgroundTask, process: TaskProcess) -> None:
        process.resources.callback(_refuse)
        await super().adopt(task, process)


def _refuse() -> None:
    raise PermissionError("not yours")


@dataclass
class Room:
    """A Bash tool whose commands can go to the background."""

    children: ProcessGroup
    root: Path
    tasks: NoticedTasks
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    output_limit: int = 5_000_000_000

    def bash(self) -> BashTool:
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
            return await self.bash().run(arguments, CallContext("call", scope))

    async def begin(self, command: str, scope: PlainScope = ALICE, **more: Json) -> str:
        """The id of a new task."""
        return id_of(await self.run(command, scope, run_in_background=True, **more))

    def fifo(self, name: str = "fifo") -> Path:
        path = self.root.parent / name
        os.mkfifo(path)
        return path

    def left(self) -> set[int]:
        return kill_tree.find_processes(set(), kill_tree.build_run_marker(self.children.run_id))


@pytest.fixture
async def room(tmp_path: Path) -> AsyncGenerator[Room]:
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    async with ProcessGroup() as children:
        yield Room(children, root, NoticedTasks(children, tmp_path / "tasks"))


def id_of(result: ToolResult) -> str:
    match result.response:
        case {"backgroundTaskId": str(task_id)}:
            return task_id
        case _:
            raise AssertionError(result)


def text_of(result: ToolResult) -> str:
    match result.wire["content"]:
        case [{"type": "text", "text": str(text)}]:
            return text
        case other:
            raise AssertionError(other)


async def heard(fifo: Path, times: int = 1) -> None:
    """Returns when so many lines were written to the FIFO, and what was printed before is kept."""
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        said = b""
        with anyio.fail_after(10):
            while said.count(b"\n") < times:
                await anyio.wait_readable(descriptor)
                said += os.read(descriptor, 100)
    finally:
        os.close(descriptor)
    await anyio.wait_all_tasks_blocked()


async def tell(fifo: Path, line: str) -> None:
    with anyio.fail_after(10):
        await to_thread.run_sync(fifo.write_text, f"{line}\n", "utf-8")


# Started in the background


async def test_the_answer_comes_at_once_with_the_id_the_file_and_the_way_to_stop_it(
    room: Room,
) -> None:
    result = await room.run("sleep 600", run_in_background=True)

    task_id = id_of(result)
    output = str(room.root.parent / "tasks" / f"{task_id}.output")
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
    assert room.tasks.list_running("alice") == (
        BackgroundTask(task_id, "alice", "sleep 600", Path(output)),
    )


async def test_every_task_has_an_id_and_a_private_file_of_its_own(room: Room) -> None:
    first, second = await room.begin("sleep 600"), await room.begin("sleep 600")

    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in room.tasks.folder.iterdir()}
    assert first != second
    assert files == {f"{first}.output": 0o600, f"{second}.output": 0o600}
    assert stat.S_IMODE(room.tasks.folder.stat().st_mode) == 0o700


async def test_read_shows_the_output_while_the_command_runs_and_its_end_after_it(
    room: Room,
) -> None:
    up, go = room.fifo("up"), room.fifo("go")
    read = ReadTool(Workspace(room.root))

    async def seen() -> str:
        context = CallContext("call", PlainScope(kept={output}))
        checked = await read.check({"file_path": output}, context)
        return text_of(await read.run(checked.arguments, context))

    result = await room.run(
        f"echo one; echo two >&2; echo x >{up}; read -r line <{go}; echo $line",
        run_in_background=True,
    )
    task_id = id_of(result)
    output = str(room.tasks.folder / f"{task_id}.output")
    assert result.changes == (FileDelivered(output),)
    await heard(up)

    assert await seen() == "     1\tone\n     2\ttwo"

    await tell(go, "three")
    await room.tasks.last_words(task_id)

    assert await seen() == (
        f"     1\tone\n     2\ttwo\n     3\tthree\n     4\t[Task {task_id} is over: Exit code 0]"
    )
    assert room.tasks.list_running("alice") == ()


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
async def test_the_file_holds_what_was_printed_and_how_it_ended(
    room: Room, command: str, expected: str
) -> None:
    task_id = await room.begin(command)

    assert await room.tasks.last_words(task_id) == expected.replace("ID", task_id)


async def test_a_task_ends_with_its_command_not_with_what_holds_its_output(room: Room) -> None:
    task_id = await room.begin("sleep 600 & echo done")

    assert await room.tasks.last_words(task_id) == f"done\n[Task {task_id} is over: Exit code 0]\n"


async def test_a_task_that_outlives_its_time_is_ended_with_everything_it_started(
    room: Room,
) -> None:
    fifo = room.fifo()
    task_id = await room.begin(STUBBORN.format(fifo=fifo), timeout=1500)
    await heard(fifo, times=3)

    said = await room.tasks.last_words(task_id)

    assert said == f"[Task {task_id} is over: Command timed out after 1.5s]\n"
    assert room.left() == set()


async def test_a_task_that_prints_too_much_is_ended_and_the_file_says_so(room: Room) -> None:
    room.output_limit = 100_000

    task_id = await room.begin("yes")

    said = await room.tasks.last_words(task_id)
    reason = "Command was stopped: it printed more than 100,000 bytes"
    assert said == "y\n" * 50_000 + f"[Task {task_id} is over: {reason}]\n"
    assert room.left() == set()


@pytest.mark.parametrize(
    ("asked", "milliseconds"),
    [(None, 1_800_000), (5, 5), (3_000_000, 3_000_000), (1e12, 7_200_000)],
)
async def test_the_life_of_a_task_is_asked_for_within_bounds(
    room: Room, asked: float | None, milliseconds: int
) -> None:
    arguments: JsonObject = {} if asked is None else {"timeout": asked}

    assert room.bash().parse_lifetime_ms(arguments) == milliseconds


async def test_a_task_starts_where_the_scope_is_and_moves_nobody(room: Room) -> None:
    inside = room.root / "sub"
    inside.mkdir()

    result = await room.run("pwd; cd ..", PlainScope(cwd=inside), run_in_background=True)

    said = await room.tasks.last_words(id_of(result))
    assert said.splitlines()[0] == str(inside)
    assert [type(change) for change in result.changes] == [FileDelivered]


async def test_a_task_sees_the_same_environment_as_any_command(room: Room, tmp_path: Path) -> None:
    own = tmp_path / "own env"
    own.write_text("greeting=hello\n", encoding="utf-8")
    room.environ |= {"BASH_ENV": str(own), "MCP_DISPATCH_TOKEN": "secret"}

    task_id = await room.begin(
        'echo "$greeting|${!DISPATCH*}|${MCP_DISPATCH_TOKEN-unset}|$CLAUDECODE"'
    )

    assert (await room.tasks.last_words(task_id)).splitlines()[0] == "hello||unset|1"


async def test_a_command_that_cannot_start_is_no_task(room: Room) -> None:
    room.environ = {"PATH": "/nowhere"}

    result = await room.run("true", run_in_background=True)

    assert result == build_error_result(
        "cannot start 'bash': no such executable; install it, or correct the name or PATH"
    )
    assert room.tasks.list_running("alice") == ()
    assert list(room.tasks.folder.iterdir()) == []


async def test_tasks_leave_no_descriptor_open(room: Room) -> None:
    async def a_few() -> int:
        for command in ("true", "exit 3"):
            await room.tasks.last_words(await room.begin(command))
        await room.tasks.stop("alice", await room.begin("sleep 600"))
        await room.tasks.last_words(id_of(await room.run("tail -f /dev/null", timeout=1)))
        await anyio.wait_all_tasks_blocked()
        return len(list(Path("/proc/self/fd").iterdir()))

    room.tasks.lifetime_ms = 1
    before = await a_few()

    assert [await a_few() for _ in range(3)] == [before] * 3


async def test_the_description_tells_of_the_background_and_how_to_read_and_stop(
    room: Room,
) -> None:
    description = str(room.bash().definition["description"])

    (line,) = (line for line in description.splitlines() if "run_in_background" in line)
    assert "Read" in line
    assert "TaskStop" in line
    assert "(default 1,800,000, at most 7,200,000)" in line
    assert room.bash().validator.find_problems({"command": "x", "run_in_background": "yes"}) != []
    assert room.bash().validator.find_problems({"command": "x", "run_in_background": True}) == []


# How many, and whose


async def test_one_more_than_the_most_is_refused_before_anybody_is_asked(room: Room) -> None:
    room.tasks = NoticedTasks(room.children, room.tasks.folder, max_running=2)
    first = await room.begin("sleep 600")
    second = await room.begin(f"sleep  601\n# {'x' * 100}")
    message = (
        "2 background tasks are running, and no more are allowed; stop one with TaskStop first:"
        f" {first} (sleep 600), {second} (sleep 601 # {'x' * 67}…)"
    )
    arguments: JsonObject = {"command": "sleep 602", "run_in_background": True}

    with pytest.raises(Refused) as caught:
        await room.bash().check(arguments, CallContext("call", ALICE))

    assert caught.value.refusal == Refusal(RefusedBy.SEMANTIC, message)
    assert await room.run("sleep 602", run_in_background=True) == build_error_result(message)
    assert text_of(await room.run("echo in the foreground")) == "in the foreground"
    assert [task.id for task in room.tasks.list_running("alice")] == [first, second]


async def test_the_tasks_of_others_take_no_room_and_an_ended_one_gives_it_back(room: Room) -> None:
    room.tasks = NoticedTasks(room.children, room.tasks.folder, max_running=1)
    first = await room.begin("sleep 600", ALICE)

    bobs = await room.begin("sleep 600", BOB)
    await room.tasks.stop("alice", first)
    again = await room.begin("sleep 600", ALICE)

    assert [task.id for task in room.tasks.list_running("alice")] == [again]
    assert [task.id for task in room.tasks.list_running("bob")] == [bobs]


async def test_nobody_stops_the_task_of_another(room: Room) -> None:
    task_id = await room.begin("sleep 600", ALICE)

    stopped = await room.tasks.stop("bob", task_id)

    assert stopped is None
    assert [task.id for task in room.tasks.list_running("alice")] == [task_id]
    assert await room.tasks.stop("alice", task_id) is not None


# How they are ended


async def test_a_stopped_task_takes_along_what_left_its_session_or_ignores_term(
    room: Room,
) -> None:
    fifo = room.fifo()
    task_id = await room.begin(STUBBORN.format(fifo=fifo))
    await heard(fifo, times=3)
    assert len(room.left()) >= 4

    with anyio.fail_after(10):
        task = await room.tasks.stop("alice", task_id)

    assert task is not None
    assert task.id == task_id
    assert room.left() == set()
    assert await room.tasks.last_words(task_id) == (
        f"[Task {task_id} is over: Command was stopped: TaskStop ended it]\n"
    )
    assert await room.tasks.stop("alice", task_id) is None


async def test_the_end_of_a_scope_ends_its_tasks_and_no_others(room: Room) -> None:
    mine = [await room.begin("echo hi; sleep 600", ALICE) for _ in range(2)]
    theirs = await room.begin("sleep 600", BOB)

    with anyio.fail_after(10):
        await room.tasks.end_scope("alice")

    assert room.tasks.list_running("alice") == ()
    assert [task.id for task in room.tasks.list_running("bob")] == [theirs]
    assert len(room.left()) == 1
    for task_id in mine:
        assert (await room.tasks.last_words(task_id)).endswith(
            f"[Task {task_id} is over: Command was stopped: its session ended]\n"
        )


async def test_no_task_outlives_the_server(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    fifo = root / "fifo"
    os.mkfifo(fifo)

    async with ProcessGroup() as children:
        room = Room(children, root, NoticedTasks(children, root / "tasks"))
        task_id = await room.begin(STUBBORN.format(fifo=fifo))
        await heard(fifo, times=3)

    assert room.left() == set()
    assert (await room.tasks.last_words(task_id)).startswith(f"[Task {task_id} is over: ")


async def test_a_call_that_is_cancelled_while_it_starts_leaves_no_task(room: Room) -> None:
    with anyio.CancelScope() as call:
        call.cancel()
        await room.run("sleep 600", run_in_background=True)

    assert call.cancelled_caught
    assert len(room.tasks.ended) == 1
    assert (room.tasks.list_running("alice"), room.left()) == ((), set())


# Moved when late


async def test_a_late_command_goes_on_in_the_background_and_finishes(room: Room) -> None:
    go = room.fifo()

    result = await room.run(f"echo before; read -r line <{go}; echo after $line", timeout=2000)

    task_id = id_of(result)
    output = str(room.tasks.folder / f"{task_id}.output")
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
    assert [task.id for task in room.tasks.list_running("alice")] == [task_id]

    await tell(go, "all")

    assert await room.tasks.last_words(task_id) == (
        f"before\nafter all\n[Task {task_id} is over: Exit code 0]\n"
    )


async def test_a_silent_late_command_has_no_output_to_show(room: Room) -> None:
    result = await room.run("tail -f /dev/null", timeout=500)

    assert text_of(result).splitlines()[0] == (
        "Command did not complete within its 0.5s timeout and was moved to the background with"
        f" ID: {id_of(result)}"
    )
    assert text_of(result).endswith(f'call TaskStop with task_id "{id_of(result)}".')


async def test_a_moved_command_moves_nobody_and_leaves_nothing_but_its_output(room: Room) -> None:
    go = room.fifo()
    (room.root / "sub").mkdir()

    result = await room.run(f"cd sub; read -r line <{go}", timeout=1000)
    await tell(go, "on")
    await room.tasks.last_words(id_of(result))

    assert [type(change) for change in result.changes] == [FileDelivered]
    assert list((room.root.parent / "scratch").iterdir()) == []
    assert [path.name for path in room.tasks.folder.iterdir()] == [f"{id_of(result)}.output"]


async def test_a_moved_command_has_the_life_of_a_task_from_then_on(room: Room) -> None:
    room.tasks.lifetime_ms = 300

    task_id = id_of(await room.run("tail -f /dev/null", timeout=300))

    assert await room.tasks.last_words(task_id) == (
        f"[Task {task_id} is over: Command timed out after 0.3s]\n"
    )
    assert room.left() == set()


def failed_command(text: str, response: Json) -> ToolResult:
    """What a command printed is text of others."""
    return replace(build_error_result(text, response=response), foreign=True)


async def test_a_late_command_that_finds_no_room_is_ended(room: Room) -> None:
    room.tasks = NoticedTasks(room.children, room.tasks.folder, max_running=1)
    task_id = await room.begin("sleep 600")

    result = await room.run("tail -f /dev/null", timeout=300)

    assert result == failed_command(
        "Command timed out after 0.3s and was ended: 1 background tasks are running, and no more"
        f" are allowed; stop one with TaskStop first: {task_id} (sleep 600)",
        response={"stdout": "", "stderr": "", "interrupted": True, "timedOutAfterMs": 300},
    )
    assert [path.name for path in room.tasks.folder.iterdir()] == [f"{task_id}.output"]
    assert len(room.left()) == 1


@pytest.mark.parametrize("command", ["sleep 600; echo git", "(tail -f /dev/null)"])
async def test_what_may_not_be_moved_is_ended(room: Room, command: str) -> None:
    result = await room.run(command, timeout=300)

    assert result == failed_command(
        "Command timed out after 0.3s",
        response={"stdout": "", "stderr": "", "interrupted": True, "timedOutAfterMs": 300},
    )
    assert list(room.tasks.folder.iterdir()) == []
    assert room.left() == set()


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
    room: Room,
) -> None:
    with anyio.CancelScope() as call:
        room.tasks.calls_to_cancel.append(call)
        await room.run("echo a; tail -f /dev/null", timeout=1000)

    (task_id,) = room.tasks.ended
    assert call.cancelled_caught
    assert (room.tasks.list_running("alice"), room.left()) == ((), set())
    assert await room.tasks.last_words(task_id) == (
        f"a\n[Task {task_id} is over: Command was stopped: its call was cancelled]\n"
    )


async def test_whenever_the_cancel_comes_a_command_is_either_a_task_or_gone(room: Room) -> None:
    for milliseconds in range(40, 60, 2):
        results: list[ToolResult] = []
        with anyio.move_on_after(0.05):
            results.append(await room.run("tail -f /dev/null", timeout=milliseconds))

        running = [task.id for task in room.tasks.list_running("alice")]
        assert running == [id_of(result) for result in results]
        assert bool(room.left()) is bool(results)
        await room.tasks.end_scope("alice")


# What stays on disk


async def test_only_output_files_of_a_week_ago_are_removed(room: Room) -> None:
    folder = room.tasks.folder
    folder.mkdir()
    week = 7 * 24 * 3600
    ages = {"b0000000.output": week + 60, "b0000001.output": week - 60, "notes.txt": week + 60}
    for name, age in ages.items():
        (folder / name).touch()
        os.utime(folder / name, (time.time() - age, time.time() - age))

    removed = room.tasks.remove_old_outputs()

    assert removed == 1
    assert sorted(path.name for path in folder.iterdir()) == ["b0000001.output", "notes.txt"]


async def test_where_there_is_no_folder_yet_nothing_is_old(room: Room) -> None:
    assert room.tasks.remove_old_outputs() == 0


async def test_a_folder_reached_by_a_link_gives_real_paths(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    tasks = BackgroundTasks(ProcessGroup(), tmp_path / "link" / "tasks")

    assert (
        tasks.create_task("alice", "true").output_path.parent
        == tmp_path.resolve() / "real" / "tasks"
    )


async def test_belongings_that_will_not_go_harm_nobody(room: Room) -> None:
    room.tasks = TroubledTasks(room.children, room.tasks.folder)

    task_id = await room.begin("true")

    assert await room.tasks.last_words(task_id) == f"[Task {task_id} is over: Exit code 0]\n"
    assert room.tasks.list_running("alice") == ()
    assert text_of(await room.run("echo still here")) == "still here"
