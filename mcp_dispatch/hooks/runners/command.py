"""Runs one command hook: a child process that is told of the call on stdin, and never left behind."""

import logging
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from mcp_dispatch.hooks.actions import Command
from mcp_dispatch.hooks.output import Failure, Printed
from mcp_dispatch.model.hook_context import Circumstances
from mcp_dispatch.processes.child import CannotStart, Child
from mcp_dispatch.processes.children import Children
from mcp_dispatch.processes.environment import inherited

logger = logging.getLogger(__name__)

# What goes beyond is read, counted and thrown away. stdout may hold a whole file as new arguments.
KEPT_OF_STDOUT: Final = 8 << 20
KEPT_OF_STDERR: Final = 1 << 20

_SHELLS: Final = {"sh": "/bin/sh", "bash": "bash"}
_PROJECT: Final = "${CLAUDE_PROJECT_DIR}"
_TELEMETRY: Final = "OTEL_"
_GRACE: Final = 1.0

# A pipe can outlive the hook in something it left in the background. What the hook itself wrote
# is in the pipe by then, so a short while is enough.
_LINGER: Final = 0.5


class _Captured:
    """The first of a stream, bounded; all of it is read, so that the writer never blocks."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.dropped = 0
        self.ended = anyio.Event()

    async def read(self, stream: ByteReceiveStream) -> None:
        async for chunk in stream:
            kept = chunk[: self._limit - len(self._kept)]
            self._kept += kept
            self.dropped += len(chunk) - len(kept)
        self.ended.set()

    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")


class CommandRunner:
    """`workspace` is the project of CLAUDE_PROJECT_DIR; without one it is the call's directory."""

    def __init__(
        self, children: Children, environ: Mapping[str, str], workspace: Path | None = None
    ) -> None:
        self._children = children
        self._environ = {
            name: value
            for name, value in inherited(environ).items()
            if not name.startswith(_TELEMETRY)
        }
        self._workspace = workspace

    async def run(
        self, command: Command, document: bytes, circumstances: Circumstances
    ) -> Printed | Failure:
        """Never raises on account of the hook: what goes wrong with it is a `Failure`."""
        project = self._workspace or circumstances.cwd
        try:
            child = await self._children.spawn(
                _argv(command, project),
                cwd=self._directory(circumstances.cwd, project),
                env=self._environment(project, circumstances),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
            )
            try:
                return await _converse(child, document, command.seconds)
            finally:
                await child.aclose(_GRACE)
        except CannotStart as error:
            return Failure(str(error))
        except Exception as error:  # guards against what a foreign program does to its pipes
            logger.exception("hook %s failed unexpectedly", command.label)
            return Failure(f"{type(error).__name__}: {error}")

    def _environment(self, project: Path, circumstances: Circumstances) -> dict[str, str]:
        return {
            **self._environ,
            "CLAUDE_PROJECT_DIR": str(project),
            "CLAUDECODE": "1",
            "CLAUDE_CODE_SESSION_ID": circumstances.session_id,
        }

    def _directory(self, cwd: Path, project: Path) -> Path:
        """Where the hook starts. A directory that has gone must not silence it."""
        home = Path(self._environ.get("HOME") or "/")
        return next((path for path in (cwd, project, home) if _usable(path)), Path("/"))


def _argv(command: Command, project: Path) -> list[str]:
    """The shell is given the command as the user wrote it; nothing of the call is ever in it."""
    if command.args is None:
        return [_SHELLS[command.shell], "-c", command.command]
    return [part.replace(_PROJECT, str(project)) for part in (command.command, *command.args)]


def _usable(directory: Path) -> bool:
    try:
        return directory.is_dir()
    except OSError:
        return False


async def _converse(child: Child, document: bytes, seconds: float) -> Printed | Failure:
    stdin, out, err = child.stdin, child.stdout, child.stderr
    assert stdin is not None, "every stream of a hook is a pipe"
    assert out is not None, "every stream of a hook is a pipe"
    assert err is not None, "every stream of a hook is a pipe"
    stdout, stderr = _Captured(KEPT_OF_STDOUT), _Captured(KEPT_OF_STDERR)
    code: int | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_tell, stdin, document)
        tasks.start_soon(stdout.read, out)
        tasks.start_soon(stderr.read, err)
        with anyio.move_on_after(seconds):
            code = await child.wait()
        if code is not None:
            await _hear_out(child, stdout, stderr)
        tasks.cancel_scope.cancel()
    if code is None:
        return Failure(f"timed out after {seconds:g} s", timed_out=True)
    return Printed(code, stdout.text(), stderr.text(), stdout.dropped)


async def _tell(stdin: ByteSendStream, document: bytes) -> None:
    try:
        await stdin.send(document)
    except anyio.BrokenResourceError:
        return  # it does not have to read what it is told
    finally:
        await stdin.aclose()


async def _hear_out(child: Child, *streams: _Captured) -> None:
    """Waits for the ends of the pipes; ends whoever still holds them."""
    with anyio.move_on_after(_LINGER) as patience:
        for stream in streams:
            await stream.ended.wait()
    if not patience.cancelled_caught:
        return
    # On a busy event loop the time may have passed without a look at the pipes, and a deny in them
    # must not be lost. Once nobody holds them any more, their end is there to be read.
    await child.stop(_GRACE)
    with anyio.move_on_after(_LINGER):
        for stream in streams:
            await stream.ended.wait()
