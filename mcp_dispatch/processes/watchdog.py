"""The server's side of the watchdog, which ends every child when the server is gone."""

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
from mcp_dispatch.processes.child import cannot_start
from mcp_dispatch.processes.environment import inherited

RELEASE_PATIENCE = kill_tree.WATCHDOG_GRACE + kill_tree.KILL_PATIENCE + 2.0
KILLED_PATIENCE = 1.0


class Watchdog:
    """Started with the first child, and again should somebody have ended it."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def ensure(self, news: Callable[[], Iterable[str]]) -> None:
        """Running from here on; one started now is first told the `news`."""
        if self._pipe >= 0 and self._process is not None and self._process.poll() is None:
            return
        self._dismiss()
        argv = [sys.executable, "-I", "-S", kill_tree.__file__]
        try:
            self._start(argv)
        except OSError as error:
            self._hang_up()
            raise cannot_start(argv, Path("/"), error) from error
        for line in (self._run, *news()):
            self.tell(line)

    def _start(self, argv: list[str]) -> None:
        theirs, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
            with _polite_signals_blocked():
                self._process = _open(argv, theirs)
        finally:
            os.close(theirs)

    def tell(self, line: str) -> None:
        if self._pipe < 0:
            return
        try:
            os.write(self._pipe, f"{line}\n".encode())
        except (BrokenPipeError, BlockingIOError):
            self._dismiss()

    def _dismiss(self) -> None:
        # Ended before its pipe is closed: a watchdog that is merely stuck would take that for the
        # end of the server.
        if self._process is not None:
            _kill(self._process)
        self._hang_up()

    def _hang_up(self) -> None:
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)

    async def release(self) -> None:
        """Lets it end what is left, and go."""
        self._hang_up()
        if self._process is not None:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(_let_go, self._process, limiter=anyio.CapacityLimiter(1))


def _open(argv: list[str], pipe: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        stdin=pipe,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        # Without the marker, even of a server around this one: it must outlive us both.
        env=inherited(os.environ),
        start_new_session=True,
    )


@contextmanager
def _polite_signals_blocked() -> Generator[None]:
    """What is started meanwhile has them blocked from its first moment."""
    polite = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, polite)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _let_go(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(RELEASE_PATIENCE)
    except subprocess.TimeoutExpired:
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    try:
        process.wait(KILLED_PATIENCE)
    except subprocess.TimeoutExpired:
        return
