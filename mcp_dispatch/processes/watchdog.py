"""The server's side of the watchdog, a process that ends every child when the server dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from mcp_dispatch.processes import kill_tree
from mcp_dispatch.processes.child import build_start_error
from mcp_dispatch.processes.environment import remove_own_variables

RELEASE_TIMEOUT_SECONDS = kill_tree.WATCHDOG_GRACE_SECONDS + kill_tree.KILL_TIMEOUT_SECONDS + 2.0
KILL_WAIT_SECONDS = 1.0


class Watchdog:
    """The watchdog process. It is started with the first child, and restarted if it has ended."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def ensure_running(self, list_groups: Callable[[], Iterable[str]]) -> None:
        """Start the watchdog unless it runs, and send it the lines of `list_groups`."""
        if self._pipe >= 0 and self._process is not None and self._process.poll() is None:
            return
        self._kill_process()
        argv = [sys.executable, "-I", "-S", kill_tree.__file__]
        try:
            self._start(argv)
        except OSError as error:
            self._close_pipe()
            raise build_start_error(argv, Path("/"), error) from error
        for line in (self._run_id, *list_groups()):
            self.send_line(line)

    def _start(self, argv: list[str]) -> None:
        theirs, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
            with _block_signals():
                self._process = _spawn(argv, theirs)
        finally:
            os.close(theirs)

    def send_line(self, line: str) -> None:
        if self._pipe < 0:
            return
        try:
            os.write(self._pipe, f"{line}\n".encode())
        except (BrokenPipeError, BlockingIOError):
            self._kill_process()

    def _kill_process(self) -> None:
        # Killed before its pipe is closed: a watchdog that is merely stuck would treat that as the
        # end of the server.
        if self._process is not None:
            _kill(self._process)
        self._close_pipe()

    def _close_pipe(self) -> None:
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)

    async def release(self) -> None:
        """Let the watchdog end what is left, and wait for it."""
        self._close_pipe()
        if self._process is not None:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(
                    _wait_or_kill, self._process, limiter=anyio.CapacityLimiter(1)
                )


def _spawn(argv: list[str], pipe: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        stdin=pipe,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        # Without the marker, even of a server around this one: it must outlive us both.
        env=remove_own_variables(os.environ),
        start_new_session=True,
    )


@contextmanager
def _block_signals() -> Generator[None]:
    """Block the signals, so that a process started in this context has them blocked at once."""
    polite = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, polite)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(RELEASE_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    try:
        process.wait(KILL_WAIT_SECONDS)
    except subprocess.TimeoutExpired:
        return
