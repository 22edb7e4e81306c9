"""Starting a command: what bash cannot take, the files it writes to, the variables it sees."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from tempfile import NamedTemporaryFile

import anyio

from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.processes.child import ChildProcess, ProcessStartError
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.processes.environment import remove_own_variables
from mcp_dispatch.processes.output_file import OutputFile
from mcp_dispatch.tools.bash import result as bash_text

MAX_COMMAND_BYTES = 131_071
"""Bytes of one argument that Linux takes."""

_PRELUDE = Path(__file__).with_name("bash_prelude.sh")
_MAX_PATH_BYTES = 65536


def refuse_unusable_command(command: str) -> None:
    if "\0" in command:
        raise Refused(
            RefusedBy.SEMANTIC, "the command contains a NUL character; a command cannot hold one"
        )
    try:
        size = len(os.fsencode(command))
    except UnicodeEncodeError as error:
        raise Refused(
            RefusedBy.SEMANTIC, "the command contains half a surrogate pair; write the character"
        ) from error
    if size > MAX_COMMAND_BYTES:
        raise Refused(
            RefusedBy.SEMANTIC,
            f"the command has {size:,} bytes, more than the {MAX_COMMAND_BYTES:,} the system takes;"
            " write it to a file with Write and run that",
        )


def open_recording(resources: ExitStack, folder: Path, limit: int, name: str | None) -> OutputFile:
    """Where a command's output goes; `owner` closes it. Raises `CannotStart`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        recording = OutputFile(folder, limit, name=name)
    except OSError as error:
        raise ProcessStartError("bash", f"no file for its output: {error}") from error
    resources.callback(recording.close)
    return recording


class DirectoryReport:
    """A file in which a shell notes the directory it ends in; `owner` removes it.

    Raises `CannotStart` where there can be none.
    """

    def __init__(self, resources: ExitStack, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = NamedTemporaryFile(dir=folder, prefix="cwd-", delete=False)  # noqa: SIM115
        except OSError as error:
            raise ProcessStartError("bash", f"no file for its directory: {error}") from error
        resources.callback(Path(file.name).unlink, missing_ok=True)
        resources.callback(file.close)
        self.path = Path(file.name)
        self._descriptor = file.fileno()

    def read_directory(self) -> Path | None:
        """None where the shell did not say, or named what is no directory any more."""
        text = os.fsdecode(os.pread(self._descriptor, _MAX_PATH_BYTES, 0)).removesuffix("\n")
        path = Path(text)
        return path if path.is_absolute() and path.is_dir() else None


def build_environment(
    environ: Mapping[str, str], cwd: Path, report: DirectoryReport | None
) -> dict[str, str]:
    """The variables DISPATCH_SHELL_* and BASH_ENV are taken out again by the prelude."""
    env = remove_own_variables(environ) | {"CLAUDECODE": "1", "PWD": str(cwd)}
    if report is None:
        return env
    if "BASH_ENV" in env:
        env["DISPATCH_SHELL_BASH_ENV"] = env["BASH_ENV"]
    return env | {
        "BASH_ENV": str(_PRELUDE),
        "DISPATCH_SHELL_PARENT": str(os.getpid()),
        "DISPATCH_SHELL_CWD": str(report.path),
    }


async def start_command(
    children: ProcessGroup, command: str, cwd: Path, env: Mapping[str, str], recording: OutputFile
) -> ChildProcess:
    """Raises `CannotStart`."""
    try:
        child = await children.spawn(
            ["bash", "--norc", "-c", "--", command],
            cwd=cwd,
            env=env,
            stdout=recording.descriptor,
            stderr=recording.descriptor,
        )
    except ProcessStartError:
        recording.close_pipe()
        raise
    recording.close_child_end()
    children.spawn_task(recording.copy)
    return child


FIRST_PROGRESS_SECONDS = 2.0
PROGRESS_SECONDS = 1.0


class WatchResult(Enum):
    """Why the wait is over. After LATE and FULL the command still runs."""

    ENDED = "ended"
    TIMED_OUT = "late"
    OUTPUT_FULL = "full"


async def watch_command(
    child: ChildProcess, recording: OutputFile, seconds: float, progress: Progress | None = None
) -> WatchResult:
    """A wait that is cancelled ends the command, with everything it started."""
    watched = WatchResult.OUTPUT_FULL
    try:
        with anyio.move_on_after(seconds) as limit:
            async with anyio.create_task_group() as beside:
                if progress is not None:
                    beside.start_soon(_report_progress, recording, progress)
                beside.start_soon(_cancel_on_event, recording.stopped, beside.cancel_scope)
                await child.wait()
                watched = WatchResult.ENDED
                beside.cancel_scope.cancel()
    except BaseException:
        await child.stop()
        raise
    late = limit.cancelled_caught and watched is not WatchResult.ENDED
    return WatchResult.TIMED_OUT if late else watched


async def _cancel_on_event(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def _report_progress(recording: OutputFile, progress: Progress) -> None:
    began = anyio.current_time()
    await anyio.sleep(FIRST_PROGRESS_SECONDS)
    while True:
        message = bash_text.read_last_line(recording) or f"{recording.size:,} bytes so far"
        elapsed = round(anyio.current_time() - began, 1)
        await progress({"progress": elapsed, "message": message})
        await anyio.sleep(PROGRESS_SECONDS)
