"""Every child process of this server: started in its own session, marked, and never left behind."""

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
from mcp_dispatch.processes.child import DEFAULT_GRACE, CannotStart, Child, cannot_start
from mcp_dispatch.processes.pipes import Plumbing, Stdio, ThreeStreams, connect
from mcp_dispatch.processes.watchdog import Watchdog

HAS_GROUPS = sys.platform != "win32"


class Children:
    """The owner of all child processes; when it is left, none of them lives on."""

    _tasks: TaskGroup
    _limiter: CapacityLimiter
    _watchdog: Watchdog

    def __init__(self) -> None:
        self._run = secrets.token_hex(16)
        self._count = 0
        self._closing = False
        self._living: dict[int, Child] = {}
        self._leaderless: set[int] = set()

    @property
    def run(self) -> str:
        """The random id that marks the environment of everything started here."""
        return self._run

    @property
    def watchdog_pid(self) -> int | None:
        """None before the first child."""
        return self._watchdog.pid

    async def __aenter__(self) -> Self:
        self._limiter = CapacityLimiter(math.inf)
        self._watchdog = Watchdog(self._run)
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
            await self._end_all()
            await self._watchdog.release()
        self._tasks.cancel_scope.cancel()
        # Not given the error: a task group would wrap it.
        await self._tasks.__aexit__(None, None, None)

    def beside(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `task` for as long as it takes, at most until the children are left."""
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
    ) -> Child:
        """A new child with exactly `env` and the marker. Raises `CannotStart`."""
        if self._closing:
            raise CannotStart(argv[0], "the server is shutting down")
        # Not cancelled half-way: between its start and its entry here a child has no owner.
        with anyio.CancelScope(shield=True):
            if HAS_GROUPS:
                self._watchdog.ensure(self._news)
            return await self._start(argv, cwd, env, (stdin, stdout, stderr))
        raise AssertionError("nobody cancels that scope")

    async def _start(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], stdio: ThreeStreams
    ) -> Child:
        self._count += 1
        number = self._count
        child_ends = ExitStack()
        try:
            plumbing = connect(stdio, child_ends)
            process = await self._open(argv, cwd, env, number, plumbing)
        except (OSError, ValueError) as error:
            raise cannot_start(argv, cwd, error) from error
        finally:
            child_ends.close()
        child = Child(process, number, plumbing, self._end)
        self._living[child.pid] = child
        self._watchdog.tell(f"+{child.pid}")
        self._tasks.start_soon(self._follow, child)
        return child

    async def _open(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        number: int,
        plumbing: Plumbing,
    ) -> Process:
        stdin, stdout, stderr = plumbing.theirs
        marked = {**env, kill_tree.MARKER: f"{self._run}.{number}"}
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
            plumbing.close()
            raise

    async def _follow(self, child: Child) -> None:
        await child.wait()
        del self._living[child.pid]
        if HAS_GROUPS:
            self._leaderless.add(child.pid)
            self._watchdog.tell(f"~{child.pid}")
            self._forget_ended_groups()

    def _forget_ended_groups(self) -> None:
        # Looked at whenever a child ends, lest a number goes to a stranger while we still hold it.
        for group in list(self._leaderless):
            if not (kill_tree.leaderless(group) and kill_tree.group_lives(group)):
                self._leaderless.discard(group)
                self._watchdog.tell(f"-{group}")

    def _news(self) -> list[str]:
        """What a new watchdog has to know."""
        return [f"+{group}" for group in self._living] + [f"~{group}" for group in self._leaderless]

    async def _end(self, child: Child, grace: float) -> None:
        ours = child.returncode is None or kill_tree.leaderless(child.pid)
        groups = {child.pid} if ours else set[int]()
        await self._sweep(groups, kill_tree.mark_of_child(self._run, child.number), grace)
        self._forget_ended_groups()

    async def _end_all(self) -> None:
        children = list(self._living.values())
        if self._count:
            left = {group for group in self._leaderless if kill_tree.leaderless(group)}
            await self._sweep(
                self._living.keys() | left, kill_tree.mark_of_run(self._run), DEFAULT_GRACE
            )
        for child in children:
            await child.aclose(grace=0)

    async def _sweep(self, groups: set[int], mark: bytes, grace: float) -> None:
        await to_thread.run_sync(kill_tree.end, groups, mark, grace, limiter=self._limiter)
