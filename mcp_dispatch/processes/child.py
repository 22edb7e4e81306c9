"""One child process, with its pipes and its descendants."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
from anyio.abc import AsyncResource, ByteReceiveStream, ByteSendStream, Process

from mcp_dispatch.model.errors import MCPDispatchError
from mcp_dispatch.processes.pipes import ChildPipes

DEFAULT_GRACE_SECONDS = 2.0
REAP_TIMEOUT_SECONDS = 1.0

StopChild = Callable[["ChildProcess", float], Awaitable[None]]
"""Ends a child's process group and marked descendants, with a grace period in seconds."""


class ChildProcess(AsyncResource):
    """Leaving the context stops the process and its descendants and closes its pipes."""

    def __init__(
        self, process: Process, number: int, pipes: ChildPipes, stop_child: StopChild
    ) -> None:
        self.number = number
        self._process = process
        self._pipes = pipes
        self._stop_child = stop_child

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group and session."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The return code: negative after a signal, None while the process runs."""
        return self._process.returncode

    @property
    def stdin(self) -> ByteSendStream | None:
        return self._pipes.stdin or self._process.stdin

    @property
    def stdout(self) -> ByteReceiveStream | None:
        return self._pipes.stdout or self._process.stdout

    @property
    def stderr(self) -> ByteReceiveStream | None:
        return self._pipes.stderr or self._process.stderr

    async def wait(self) -> int:
        """Wait until the process ends, even if descendants hold its pipes; return its code."""
        return await self._process.wait()

    async def stop(self, grace: float = DEFAULT_GRACE_SECONDS) -> None:
        """Send TERM, and KILL after `grace` seconds, to the process and its descendants, also if it
        has ended already.

        Ignores cancellation; takes at most `grace` and two more seconds.
        """
        with anyio.CancelScope(shield=True):
            if sys.platform == "win32":
                self._process.kill()
            else:
                await self._stop_child(self, grace)
            with anyio.move_on_after(REAP_TIMEOUT_SECONDS):
                await self.wait()

    async def aclose(self, grace: float = DEFAULT_GRACE_SECONDS) -> None:
        await self.stop(grace)
        with anyio.CancelScope(shield=True):
            for stream in (self.stdin, self.stdout, self.stderr):
                if stream is not None:
                    await stream.aclose()


class ProcessStartError(MCPDispatchError):
    """The executable, its arguments or its directory cannot be used; no process was started."""

    def __init__(self, executable: str, problem: str) -> None:
        super().__init__(f"cannot start {executable!r}: {problem}")
        self.executable = executable
        self.problem = problem


def build_start_error(
    argv: Sequence[str], cwd: Path, error: OSError | ValueError
) -> ProcessStartError:
    """Translate an error of the system into one that says what to change."""
    if not cwd.is_dir():
        return ProcessStartError(argv[0], f"the directory {str(cwd)!r} does not exist")
    if isinstance(error, FileNotFoundError):
        return ProcessStartError(
            argv[0], "no such executable; install it, or correct the name or PATH"
        )
    if isinstance(error, PermissionError):
        return ProcessStartError(
            argv[0], f"not permitted; it must be executable and {str(cwd)!r} must be accessible"
        )
    if isinstance(error, OSError):
        return ProcessStartError(argv[0], error.strerror or str(error))
    return ProcessStartError(argv[0], f"its arguments or environment are not usable: {error}")
