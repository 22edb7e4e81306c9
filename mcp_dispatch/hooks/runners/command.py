"""Runs a command hook: a child process that gets the input on stdin and is always cleaned up."""

import logging
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from mcp_dispatch.hooks.actions import HookCommand
from mcp_dispatch.hooks.output import HookFailure, HookOutput
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.processes.child import ChildProcess, ProcessStartError
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.processes.environment import remove_own_variables

logger = logging.getLogger(__name__)

# Output over the limit is read, counted and discarded. stdout may contain a whole file as new
# arguments.
MAX_STDOUT_BYTES: Final = 8 << 20
MAX_STDERR_BYTES: Final = 1 << 20

_SHELLS: Final = {"sh": "/bin/sh", "bash": "bash"}
_PROJECT_PLACEHOLDER: Final = "${CLAUDE_PROJECT_DIR}"
_TELEMETRY_PREFIX: Final = "OTEL_"
_GRACE_SECONDS: Final = 1.0

# A background process of the hook can keep the pipes open. The hook's own output is in the pipe when
# the hook exits, so a short wait is enough.
_PIPE_DRAIN_SECONDS: Final = 0.5


class _CapturedStream:
    """The first bytes of a stream. The rest is read too, so that the writer never blocks."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.dropped_bytes = 0
        self.ended = anyio.Event()

    async def read(self, stream: ByteReceiveStream) -> None:
        async for chunk in stream:
            kept = chunk[: self._limit - len(self._kept)]
            self._kept += kept
            self.dropped_bytes += len(chunk) - len(kept)
        self.ended.set()

    def decode(self) -> str:
        return self._kept.decode("utf-8", "replace")


class CommandRunner:
    """CLAUDE_PROJECT_DIR is `workspace`, or the directory of the call if there is none."""

    def __init__(
        self, processes: ProcessGroup, environ: Mapping[str, str], workspace: Path | None = None
    ) -> None:
        self._processes = processes
        self._environ = {
            name: value
            for name, value in remove_own_variables(environ).items()
            if not name.startswith(_TELEMETRY_PREFIX)
        }
        self._workspace = workspace

    async def run(
        self, command: HookCommand, document: bytes, context: HookContext
    ) -> HookOutput | HookFailure:
        """Return the output, or a `HookFailure` for any error of the hook; never raise for one."""
        project = self._workspace or context.cwd
        try:
            child = await self._processes.spawn(
                _build_argv(command, project),
                cwd=self._choose_directory(context.cwd, project),
                env=self._build_environment(project, context),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
            )
            try:
                return await _run_child(child, document, command.timeout_seconds)
            finally:
                await child.aclose(_GRACE_SECONDS)
        except ProcessStartError as error:
            return HookFailure(str(error))
        except Exception as error:  # guards against what a foreign program does to its pipes
            logger.exception("hook %s failed unexpectedly", command.label)
            return HookFailure(f"{type(error).__name__}: {error}")

    def _build_environment(self, project: Path, context: HookContext) -> dict[str, str]:
        return {
            **self._environ,
            "CLAUDE_PROJECT_DIR": str(project),
            "CLAUDECODE": "1",
            "CLAUDE_CODE_SESSION_ID": context.session_id,
        }

    def _choose_directory(self, cwd: Path, project: Path) -> Path:
        """Return the first usable directory, so that a deleted one does not disable the hook."""
        home = Path(self._environ.get("HOME") or "/")
        return next((path for path in (cwd, project, home) if _is_usable(path)), Path("/"))


def _build_argv(command: HookCommand, project: Path) -> list[str]:
    """Return the command line as configured; arguments of the call are never part of it."""
    if command.args is None:
        return [_SHELLS[command.shell], "-c", command.command]
    return [
        part.replace(_PROJECT_PLACEHOLDER, str(project))
        for part in (command.command, *command.args)
    ]


def _is_usable(directory: Path) -> bool:
    try:
        return directory.is_dir()
    except OSError:
        return False


async def _run_child(
    child: ChildProcess, document: bytes, seconds: float
) -> HookOutput | HookFailure:
    stdin, out, err = child.stdin, child.stdout, child.stderr
    assert stdin is not None, "every stream of a hook is a pipe"
    assert out is not None, "every stream of a hook is a pipe"
    assert err is not None, "every stream of a hook is a pipe"
    stdout, stderr = _CapturedStream(MAX_STDOUT_BYTES), _CapturedStream(MAX_STDERR_BYTES)
    code: int | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_write_stdin, stdin, document)
        tasks.start_soon(stdout.read, out)
        tasks.start_soon(stderr.read, err)
        with anyio.move_on_after(seconds):
            code = await child.wait()
        if code is not None:
            await _drain_streams(child, stdout, stderr)
        tasks.cancel_scope.cancel()
    if code is None:
        return HookFailure(f"timed out after {seconds:g} s", timed_out=True)
    return HookOutput(code, stdout.decode(), stderr.decode(), stdout.dropped_bytes)


async def _write_stdin(stdin: ByteSendStream, document: bytes) -> None:
    try:
        await stdin.send(document)
    except anyio.BrokenResourceError:
        return  # the hook need not read its input
    finally:
        await stdin.aclose()


async def _drain_streams(child: ChildProcess, *streams: _CapturedStream) -> None:
    """Wait until the pipes are closed; stop processes that keep them open."""
    with anyio.move_on_after(_PIPE_DRAIN_SECONDS) as patience:
        for stream in streams:
            await stream.ended.wait()
    if not patience.cancelled_caught:
        return
    # On a busy event loop the time may pass before the pipes are read, and a deny in them must not
    # be lost. After the processes are stopped, the rest can be read to the end.
    await child.stop(_GRACE_SECONDS)
    with anyio.move_on_after(_PIPE_DRAIN_SECONDS):
        for stream in streams:
            await stream.ended.wait()
