"""Runs the process of a server and writes its stderr to a log file."""

import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from types import TracebackType
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from mcp_dispatch.processes.children import ChildProcess, ProcessGroup
from mcp_dispatch.processes.environment import remove_own_variables, select_baseline
from mcp_dispatch.upstream.config.model import StdioEndpoint

MAX_LOG_BYTES: Final = 1_000_000


class StderrLog:
    """Appends to `logs/<server>.stderr.log` and rotates it once. Several processes may share it."""

    def __init__(self, folder: Path, server: str, *, limit: int = MAX_LOG_BYTES) -> None:
        self.path = folder / f"{server}.stderr.log"
        self._rotated_path = folder / f"{server}.stderr.log.1"
        self._limit = limit
        self._fd = -1

    def __enter__(self) -> "StderrLog":
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def write(self, text: bytes) -> None:
        # A full disk must not stop the server.
        with suppress(OSError):
            if os.fstat(self._fd).st_size + len(text) > self._limit:
                self._rotate()
            os.write(self._fd, text[-self._limit :])

    def _rotate(self) -> None:
        # Another process may have rotated the file already; then its new file is used.
        if _is_same_file(self.path, self._fd):
            self.path.replace(self._rotated_path)
        stale = self._fd
        self._open()
        os.close(stale)

    def _open(self) -> None:
        no_follow: int = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | no_follow, 0o600)


def _is_same_file(path: Path, fd: int) -> bool:
    try:
        on_disk = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(fd)
    return (on_disk.st_dev, on_disk.st_ino) == (opened.st_dev, opened.st_ino)


# Seconds to exit after stdin is closed, between TERM and KILL, and to read the rest of stderr.
_EXIT_SECONDS: Final = 1.0
_TERMINATE_SECONDS: Final = 2.0
_DRAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running child with its pipes; `log` receives its stderr and unexpected output."""

    child: ChildProcess
    stdin: ByteSendStream
    stdout: ByteReceiveStream
    log: StderrLog

    async def wait_for_exit_text(self, timeout: float) -> str | None:
        """Return how the process exited, or None if it is still running after `timeout` seconds."""
        with anyio.move_on_after(timeout):
            code = await self.child.wait()
            return _describe_exit(code)
        return None


def build_child_environment(endpoint: StdioEndpoint, environ: Mapping[str, str]) -> dict[str, str]:
    """Return baseline variables, those that `inheritEnv` names, and the server's own `env`."""
    if endpoint.inherit_env is True:
        chosen = remove_own_variables(environ)
    else:
        chosen = {name: environ[name] for name in endpoint.inherit_env if name in environ}
    return {**select_baseline(environ), **chosen, **endpoint.env}


@asynccontextmanager
async def run_server_process(
    endpoint: StdioEndpoint,
    children: ProcessGroup,
    log: StderrLog,
    environ: Mapping[str, str],
    cwd: Path,
) -> AsyncGenerator[ServerProcess, None]:
    """Run the process for the duration of the block. Raises `ProcessStartError`, `OSError`."""
    with log:
        child = await children.spawn(
            [endpoint.command, *endpoint.args],
            cwd=cwd,
            env=build_child_environment(endpoint, environ),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        drained = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_drain_stderr, child.stderr, log, drained)
            try:
                yield ServerProcess(child, child.stdin, child.stdout, log)
            finally:
                with anyio.CancelScope(shield=True):
                    await _end_process(child, drained)
                tasks.cancel_scope.cancel()


async def _end_process(child: ChildProcess, drained: anyio.Event) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    await child.stdin.aclose()
    with anyio.move_on_after(_EXIT_SECONDS):
        await child.wait()
    await child.stop(_TERMINATE_SECONDS)
    with anyio.move_on_after(_DRAIN_SECONDS):
        await drained.wait()
    await child.stdout.aclose()
    await child.stderr.aclose()


async def _drain_stderr(stream: ByteReceiveStream, log: StderrLog, drained: anyio.Event) -> None:
    try:
        while True:
            log.write(await stream.receive())
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return
    finally:
        drained.set()


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
