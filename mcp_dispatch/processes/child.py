"""One child process, with its pipes and with what it started itself."""

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
"""Ends a child's group and the carriers of its marker within a grace of so many seconds."""


class ChildProcess(AsyncResource):
    """Leaving it as a context stops it, with all it left, and closes its pipes."""

    def __init__(
        self, process: Process, number: int, pipes: ChildPipes, stop_child: StopChild
    ) -> None:
        self.number = number
        self._process = process
        self._pipes = pipes
        self._stop_child = stop_child

    @property
    def pid(self) -> int:
        """Also the number of its process group and of its session."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Negative for death by a signal; None while it runs."""
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
        """Its return code, once it has ended, whoever may still hold its pipes."""
        return await self._process.wait()

    async def stop(self, grace: float = DEFAULT_GRACE_SECONDS) -> None:
        """TERM, and KILL after `grace` seconds, to it and to all it left; also when it has ended.

        Goes on when cancelled; takes at most `grace` and two seconds more.
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
    """The executable, its arguments or its directory are not usable; nothing was started."""

    def __init__(self, executable: str, problem: str) -> None:
        super().__init__(f"cannot start {executable!r}: {problem}")
        self.executable = executable
        self.problem = problem


def build_start_error(
    argv: Sequence[str], cwd: Path, error: OSError | ValueError
) -> ProcessStartError:
    """The system's error in words that say what to change."""
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
