"""Background tasks: commands that keep running after their call, each owned by one scope."""

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
from mcp_dispatch.model.tools import FileDelivered, ToolResult, build_text_result
from mcp_dispatch.processes.child import ChildProcess
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.processes.output_file import OutputFile
from mcp_dispatch.shell.ast import UnparsedScript
from mcp_dispatch.shell.plain_parser import parse_plain
from mcp_dispatch.tools.bash.process import WatchResult, watch_command
from mcp_dispatch.tools.bash.result import (
    describe_stop,
    describe_timeout,
    format_duration,
    format_exit_code,
    format_headline,
)

MAX_RUNNING = 20
DEFAULT_LIFETIME_MS = 1_800_000
MAX_LIFETIME_MS = 7_200_000
RETENTION_SECONDS = 7 * 24 * 3600
"""Longer than any task may run, so that the files of another server's tasks are not removed."""

_ALPHABET = string.ascii_lowercase + string.digits
_OUTPUT_FILE_NAME = re.compile(r"b[a-z0-9]{7}\.output")


@dataclass(frozen=True, slots=True)
class BackgroundTask:
    """A command that runs in the background, or may be moved there. Its output goes to a file."""

    id: str
    scope_id: str
    command: str
    output_path: Path

    def __str__(self) -> str:
        return f"{self.id} ({format_headline(self.command)})"


@dataclass(eq=False, slots=True)
class TaskProcess:
    """The process of a task. `resources` are closed when the task ends."""

    child: ChildProcess
    output_file: OutputFile
    lifetime_ms: int
    resources: ExitStack


@dataclass(eq=False, slots=True)
class _RunningTask:
    task: BackgroundTask
    process: TaskProcess
    wait_scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    end_reason: str = "the server ended"

    def end(self, reason: str) -> None:
        """Terminate the command and its child processes; `ended` is set afterwards."""
        self.end_reason = reason
        self.wait_scope.cancel()


class BackgroundTasks:
    """The running tasks of this server. They end with the process group at the latest.

    `folder` contains the output files, which are kept for a week. `lifetime_ms` is how long a task
    may run if its call does not specify it.
    """

    def __init__(
        self,
        children: ProcessGroup,
        folder: Path,
        *,
        max_running: int = MAX_RUNNING,
        lifetime_ms: int = DEFAULT_LIFETIME_MS,
    ) -> None:
        self._children = children
        # Resolved, because a scope records the files it may read by their real paths.
        self.folder = folder.resolve()
        self._max_running = max_running
        self.lifetime_ms = lifetime_ms
        self._running: dict[str, _RunningTask] = {}

    def remove_old_outputs(self) -> int:
        """Remove expired output files and return their number. Called at server start."""
        before = time.time() - RETENTION_SECONDS
        removed = 0
        for path in self.folder.glob("*"):
            with suppress(OSError):
                if _OUTPUT_FILE_NAME.fullmatch(path.name) and path.lstat().st_mtime < before:
                    path.unlink()
                    removed += 1
        return removed

    def create_task(self, scope_id: str, command: str) -> BackgroundTask:
        """Return a task with a new id and output path, without starting anything."""
        task_id = "b" + "".join(secrets.choice(_ALPHABET) for _ in range(7))
        return BackgroundTask(task_id, scope_id, command, self.folder / f"{task_id}.output")

    def list_running(self, scope_id: str) -> tuple[BackgroundTask, ...]:
        return tuple(each.task for each in self._find_by_scope(scope_id))

    def check_capacity(self, scope_id: str) -> str | None:
        """Return why this scope cannot start another task, or None if it can."""
        running = self.list_running(scope_id)
        if len(running) < self._max_running:
            return None
        return (
            f"{len(running)} background tasks are running, and no more are allowed;"
            f" stop one with TaskStop first: {', '.join(map(str, running))}"
        )

    async def adopt(self, task: BackgroundTask, process: TaskProcess) -> None:
        """Take over a running command. If the call is already cancelled, the command is terminated.

        The task is registered before the first await, so that its process always has an owner.
        """
        running = _RunningTask(task, process)
        self._running[task.id] = running
        self._children.spawn_task(lambda: self._watch_task(running))
        try:
            await checkpoint_if_cancelled()
        except anyio.get_cancelled_exc_class():
            running.end("its call was cancelled")
            with anyio.CancelScope(shield=True):
                await running.ended.wait()
            raise

    async def stop(self, scope_id: str, task_id: str) -> BackgroundTask | None:
        """Terminate a task of that scope; return None if no such task is running."""
        running = self._running.get(task_id)
        if running is None or running.task.scope_id != scope_id:
            return None
        running.end("TaskStop ended it")
        await running.ended.wait()
        return running.task

    async def end_scope(self, scope_id: str) -> None:
        """Terminate the tasks of a scope that has ended; called after its last call."""
        ending = self._find_by_scope(scope_id)
        for running in ending:
            running.end("its session ended")
        for running in ending:
            await running.ended.wait()

    def _find_by_scope(self, scope_id: str) -> list[_RunningTask]:
        return [each for each in self._running.values() if each.task.scope_id == scope_id]

    async def _watch_task(self, running: _RunningTask) -> None:
        ending: str | None = None
        try:
            with running.wait_scope:
                ending = await _wait_for_end(running.process)
        finally:
            ending = ending or describe_stop(running.end_reason).failure
            _close(running.process, f"[Task {running.task.id} is over: {ending}]")
            del self._running[running.task.id]
            running.ended.set()


async def _wait_for_end(process: TaskProcess) -> str:
    """Wait for the command, terminate it when its time is over, and describe how it ended."""
    watched = await watch_command(process.child, process.output_file, process.lifetime_ms / 1000)
    if watched is WatchResult.ENDED and process.child.returncode is not None:
        return format_exit_code(process.child.returncode)
    await process.child.stop()
    if watched is WatchResult.TIMED_OUT:
        return describe_timeout(process.lifetime_ms).failure
    return describe_stop(process.output_file.problem or "it printed too much").failure


def _close(process: TaskProcess, last_line: str) -> None:
    process.output_file.drain()
    process.output_file.finalize(last_line)
    # There is no caller left that could receive the error.
    with suppress(OSError):
        process.resources.close()


_GIT_WORD = re.compile(r"\bgit\b")


def can_move_to_background(command: str) -> bool:
    """Return whether a command that exceeds its timeout may continue in the background.

    Not if it starts with `sleep` (nothing waits for it any more), contains `git` (it would keep its
    locks) or cannot be parsed (its effect is unknown).
    """
    understood = parse_plain(command)
    if isinstance(understood, UnparsedScript):
        return False
    words = [word.value for each in understood.commands for word in each.words]
    if any(_GIT_WORD.search(text) for text in (command, *words)):
        return False
    first = understood.commands[0].words
    return not first or PurePosixPath(first[0].value).name != "sleep"


def build_started_result(task: BackgroundTask, lifetime_ms: int) -> ToolResult:
    next_steps = _describe_next_steps(task, lifetime_ms)
    text = f"Command is running in the background with ID: {task.id}\n{next_steps}"
    return _build_result(task, text, {"stdout": "", "stderr": "", "interrupted": False})


def build_moved_result(
    task: BackgroundTask, timeout_ms: int, lifetime_ms: int, output: str
) -> ToolResult:
    """`output` is what the command has printed so far."""
    text = (
        f"Command did not complete within its {timeout_ms / 1000:g}s timeout and was moved to the"
        f" background with ID: {task.id}\n{_describe_next_steps(task, lifetime_ms)}"
    )
    if output:
        text += f"\nOutput so far:\n{output}"
    return _build_result(
        task,
        text,
        {"stdout": output, "stderr": "", "interrupted": False, "timedOutAfterMs": timeout_ms},
    )


def _describe_next_steps(task: BackgroundTask, lifetime_ms: int) -> str:
    return (
        f"Output is being written to: {task.output_path}\n"
        "Read that file to see what it prints; a last line will say how it ended.\n"
        f"It may run for {format_duration(lifetime_ms / 1000)}; to end it earlier, call TaskStop with"
        f' task_id "{task.id}".'
    )


def _build_result(task: BackgroundTask, text: str, response: JsonObject) -> ToolResult:
    return build_text_result(
        text,
        response={**response, "backgroundTaskId": task.id},
        changes=(FileDelivered(str(task.output_path)),),
    )
