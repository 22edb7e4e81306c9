"""Background tasks: commands that outlive their call, each owned by the scope that started it."""

import re
import secrets
import string
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import FileDelivered, ToolResult, text_result
from mcp_dispatch.processes.child import Child
from mcp_dispatch.processes.children import Children
from mcp_dispatch.processes.output_file import Recording
from mcp_dispatch.shell.ast import Unknown
from mcp_dispatch.shell.plain_parser import read
from mcp_dispatch.tools.bash.process import Watched, watch
from mcp_dispatch.tools.bash.result import duration, headline, spoken, stopped, timed_out

RUNNING_AT_MOST = 20
LIFE_MS = 1_800_000
LONGEST_LIFE_MS = 7_200_000
RETENTION_SECONDS = 7 * 24 * 3600
"""Far beyond the longest life, so that the file of a task that runs elsewhere is never old."""

_ALPHABET = string.ascii_lowercase + string.digits
_OUTPUT = re.compile(r"b[a-z0-9]{7}\.output")


@dataclass(frozen=True, slots=True)
class Task:
    """A command that runs on its own, or may come to. Its output is a file that grows."""

    id: str
    scope_id: str
    command: str
    output: Path

    def __str__(self) -> str:
        return f"{self.id} ({headline(self.command)})"


@dataclass(eq=False, slots=True)
class Job:
    """What a task is made of. `belongings` are closed when it is over."""

    child: Child
    recording: Recording
    life_ms: int
    belongings: ExitStack


@dataclass(eq=False, slots=True)
class _Running:
    task: Task
    job: Job
    waiting: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)
    ended_because: str = "the server ended"

    def end(self, because: str) -> None:
        """Ends it with everything it started; `over` tells when."""
        self.ended_because = because
        self.waiting.cancel()


class BackgroundTasks:
    """Every running task of this server. They end with `children` at the latest.

    `folder` holds the output files, which stay for a week. `life_ms` is how long a task may run
    where its call did not say.
    """

    def __init__(
        self,
        children: Children,
        folder: Path,
        *,
        at_most: int = RUNNING_AT_MOST,
        life_ms: int = LIFE_MS,
    ) -> None:
        self._children = children
        # Real, since a scope knows the files it may read by their real paths.
        self.folder = folder.resolve()
        self._at_most = at_most
        self.life_ms = life_ms
        self._running: dict[str, _Running] = {}

    def remove_old(self) -> int:
        """Removes the output files of long ago; how many. Called at the start."""
        before = time.time() - RETENTION_SECONDS
        removed = 0
        for path in self.folder.glob("*"):
            with suppress(OSError):
                if _OUTPUT.fullmatch(path.name) and path.lstat().st_mtime < before:
                    path.unlink()
                    removed += 1
        return removed

    def draft(self, scope_id: str, command: str) -> Task:
        """A task with an id of its own and the place for its output; nothing runs yet."""
        task_id = "b" + "".join(secrets.choice(_ALPHABET) for _ in range(7))
        return Task(task_id, scope_id, command, self.folder / f"{task_id}.output")

    def running(self, scope_id: str) -> tuple[Task, ...]:
        return tuple(each.task for each in self._of(scope_id))

    def full(self, scope_id: str) -> str | None:
        """Why this scope cannot have one more task; None where it can."""
        running = self.running(scope_id)
        if len(running) < self._at_most:
            return None
        return (
            f"{len(running)} background tasks are running, and no more are allowed;"
            f" stop one with TaskStop first: {', '.join(map(str, running))}"
        )

    async def adopt(self, task: Task, job: Job) -> None:
        """From here on the command is the task's; a call that is cancelled by now takes it along.

        The task is owned before the first await, so there is no moment in which nobody ends it.
        """
        running = _Running(task, job)
        self._running[task.id] = running
        self._children.beside(lambda: self._follow(running))
        try:
            await checkpoint_if_cancelled()
        except anyio.get_cancelled_exc_class():
            running.end("its call was cancelled")
            with anyio.CancelScope(shield=True):
                await running.over.wait()
            raise

    async def stop(self, scope_id: str, task_id: str) -> Task | None:
        """Ends a running task of that scope; None where the scope has none with that id."""
        running = self._running.get(task_id)
        if running is None or running.task.scope_id != scope_id:
            return None
        running.end("TaskStop ended it")
        await running.over.wait()
        return running.task

    async def end_scope(self, scope_id: str) -> None:
        """Ends the tasks of a scope that is over; called once its calls have ended."""
        ending = self._of(scope_id)
        for running in ending:
            running.end("its session ended")
        for running in ending:
            await running.over.wait()

    def _of(self, scope_id: str) -> list[_Running]:
        return [each for each in self._running.values() if each.task.scope_id == scope_id]

    async def _follow(self, running: _Running) -> None:
        ending: str | None = None
        try:
            with running.waiting:
                ending = await _ending(running.job)
        finally:
            ending = ending or stopped(running.ended_because).failure
            _close(running.job, f"[Task {running.task.id} is over: {ending}]")
            del self._running[running.task.id]
            running.over.set()


async def _ending(job: Job) -> str:
    """How the command ended, in words."""
    watched = await watch(job.child, job.recording, job.life_ms / 1000)
    if watched is Watched.ENDED and job.child.returncode is not None:
        return spoken(job.child.returncode)
    await job.child.stop()
    if watched is Watched.LATE:
        return timed_out(job.life_ms).failure
    return stopped(job.recording.problem or "it printed too much").failure


def _close(job: Job, last_line: str) -> None:
    job.recording.settle()
    job.recording.conclude(last_line)
    # Nobody is left to be told that a file would not go.
    with suppress(OSError):
        job.belongings.close()


_GIT = re.compile(r"\bgit\b")


def may_move(command: str) -> bool:
    """Whether a late command goes on in the background. The others are ended.

    Nobody waits for a `sleep` that is not waited for, `git` would go on holding its locks, and of
    a command that is not understood nobody knows what it would go on with.
    """
    understood = read(command)
    if isinstance(understood, Unknown):
        return False
    words = [word.value for each in understood.commands for word in each.words]
    if any(_GIT.search(text) for text in (command, *words)):
        return False
    first = understood.commands[0].words
    return not first or PurePosixPath(first[0].value).name != "sleep"


def started(task: Task, life_ms: int) -> ToolResult:
    text = f"Command is running in the background with ID: {task.id}\n{_what_next(task, life_ms)}"
    return _result(task, text, {"stdout": "", "stderr": "", "interrupted": False})


def moved(task: Task, timeout_ms: int, life_ms: int, output: str) -> ToolResult:
    """`output` is what was printed until now."""
    text = (
        f"Command did not complete within its {timeout_ms / 1000:g}s timeout and was moved to the"
        f" background with ID: {task.id}\n{_what_next(task, life_ms)}"
    )
    if output:
        text += f"\nOutput so far:\n{output}"
    return _result(
        task,
        text,
        {"stdout": output, "stderr": "", "interrupted": False, "timedOutAfterMs": timeout_ms},
    )


def _what_next(task: Task, life_ms: int) -> str:
    return (
        f"Output is being written to: {task.output}\n"
        "Read that file to see what it prints; a last line will say how it ended.\n"
        f"It may run for {duration(life_ms / 1000)}; to end it earlier, call TaskStop with"
        f' task_id "{task.id}".'
    )


def _result(task: Task, text: str, response: JsonObject) -> ToolResult:
    return text_result(
        text,
        response={**response, "backgroundTaskId": task.id},
        changes=(FileDelivered(str(task.output)),),
    )
