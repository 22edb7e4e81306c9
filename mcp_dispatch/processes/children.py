"""All child processes of this server: each has its own session and marker, and none outlives it."""

import math
import secrets
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from subprocess import DEVNULL
from types import TracebackType
from typing import Any, Self

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.abc import Process, TaskGroup

from mcp_dispatch.processes import kill_tree
from mcp_dispatch.processes.child import (
    DEFAULT_GRACE_SECONDS,
    ChildProcess,
    ProcessStartError,
    build_start_error,
)
from mcp_dispatch.processes.pipes import ChildPipes, Stdio, StdioTriple, open_pipes
from mcp_dispatch.processes.watchdog import Watchdog

HAS_PROCESS_GROUPS = sys.platform != "win32"


class ProcessGroup:
    """Owns all child processes and ends every one when the context is left."""

    _tasks: TaskGroup
    _limiter: CapacityLimiter
    _watchdog: Watchdog

    def __init__(self) -> None:
        self._run_id = secrets.token_hex(16)
        self._started_count = 0
        self._closing = False
        self._running: dict[int, ChildProcess] = {}
        self._leaderless_groups: set[int] = set()

    @property
    def run_id(self) -> str:
        """The random id that marks the environment of everything started here."""
        return self._run_id

    @property
    def watchdog_pid(self) -> int | None:
        """The process id of the watchdog, or None before the first child."""
        return self._watchdog.pid

    async def __aenter__(self) -> Self:
        self._limiter = CapacityLimiter(math.inf)
        self._watchdog = Watchdog(self._run_id)
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closing = True
        with anyio.CancelScope(shield=True):
            await self._stop_all()
            await self._watchdog.release()
        self._tasks.cancel_scope.cancel()
        # Without the error: a task group would wrap it.
        await self._tasks.__aexit__(None, None, None)

    def spawn_task(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `task` in the background; it is cancelled when the context is left."""
        self._tasks.start_soon(task)

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: Stdio = DEVNULL,
        stdout: Stdio = DEVNULL,
        stderr: Stdio = DEVNULL,
    ) -> ChildProcess:
        """Start a child with exactly `env` and the marker. Raise `ProcessStartError`."""
        if self._closing:
            raise ProcessStartError(argv[0], "the server is shutting down")
        # Shielded: between its start and its registration a child has no owner.
        with anyio.CancelScope(shield=True):
            if HAS_PROCESS_GROUPS:
                self._watchdog.ensure_running(self._list_groups)
            return await self._start(argv, cwd, env, (stdin, stdout, stderr))
        raise AssertionError("nobody cancels that scope")

    async def _start(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdio: StdioTriple
    ) -> ChildProcess:
        self._started_count += 1
        number = self._started_count
        child_ends = ExitStack()
        try:
            plumbing = open_pipes(stdio, child_ends)
            process = await self._open_process(argv, cwd, env, number, plumbing)
        except (OSError, ValueError) as error:
            raise build_start_error(argv, cwd, error) from error
        finally:
            child_ends.close()
        child = ChildProcess(process, number, plumbing, self._stop_child)
        self._running[child.pid] = child
        self._watchdog.send_line(f"+{child.pid}")
        self._tasks.start_soon(self._watch_exit, child)
        return child

    async def _open_process(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        number: int,
        pipes: ChildPipes,
    ) -> Process:
        stdin, stdout, stderr = pipes.child_streams
        marked = {**env, kill_tree.MARKER_VARIABLE: f"{self._run_id}.{number}"}
        try:
            return await anyio.open_process(
                list(argv),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=cwd,
                env=marked,
                start_new_session=True,
            )
        except (OSError, ValueError):
            pipes.close()
            raise

    async def _watch_exit(self, child: ChildProcess) -> None:
        await child.wait()
        del self._running[child.pid]
        if HAS_PROCESS_GROUPS:
            self._leaderless_groups.add(child.pid)
            self._watchdog.send_line(f"~{child.pid}")
            self._forget_ended_groups()

    def _forget_ended_groups(self) -> None:
        # Checked whenever a child ends, before the system reuses the id of an ended group.
        for group in list(self._leaderless_groups):
            if not (kill_tree.is_leaderless(group) and kill_tree.is_group_alive(group)):
                self._leaderless_groups.discard(group)
                self._watchdog.send_line(f"-{group}")

    def _list_groups(self) -> list[str]:
        """Return the lines that describe all living groups to a new watchdog."""
        return [f"+{group}" for group in self._running] + [
            f"~{group}" for group in self._leaderless_groups
        ]

    async def _stop_child(self, child: ChildProcess, grace: float) -> None:
        ours = child.returncode is None or kill_tree.is_leaderless(child.pid)
        groups = {child.pid} if ours else set[int]()
        await self._terminate(
            groups, kill_tree.build_child_marker(self._run_id, child.number), grace
        )
        self._forget_ended_groups()

    async def _stop_all(self) -> None:
        children = list(self._running.values())
        if self._started_count:
            left = {group for group in self._leaderless_groups if kill_tree.is_leaderless(group)}
            await self._terminate(
                self._running.keys() | left,
                kill_tree.build_run_marker(self._run_id),
                DEFAULT_GRACE_SECONDS,
            )
        for child in children:
            await child.aclose(grace=0)

    async def _terminate(self, groups: set[int], marker: bytes, grace: float) -> None:
        await to_thread.run_sync(kill_tree.terminate, groups, marker, grace, limiter=self._limiter)
