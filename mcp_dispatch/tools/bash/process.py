"""Starting bash with its output file and environment, and waiting for it."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from tempfile import NamedTemporaryFile

import anyio

from mcp_dispatch.model.tools import Progress
from mcp_dispatch.processes.child import ChildProcess, ProcessStartError
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.processes.environment import remove_own_variables
from mcp_dispatch.processes.output_file import OutputFile
from mcp_dispatch.tools.base import build_refusal
from mcp_dispatch.tools.bash import result as bash_text

MAX_COMMAND_BYTES = 131_071
"""The longest argument that Linux accepts."""

_PRELUDE = Path(__file__).with_name("bash_prelude.sh")
_MAX_PATH_BYTES = 65536


def refuse_unusable_command(command: str) -> None:
    if "\0" in command:
        raise build_refusal("the command contains a NUL character; a command cannot hold one")
    try:
        size = len(os.fsencode(command))
    except UnicodeEncodeError as error:
        raise build_refusal(
            "the command contains half a surrogate pair; write the character"
        ) from error
    if size > MAX_COMMAND_BYTES:
        raise build_refusal(
            f"the command has {size:,} bytes, more than the {MAX_COMMAND_BYTES:,} the system takes;"
            " write it to a file with Write and run that",
        )


def open_output_file(
    resources: ExitStack, folder: Path, limit: int, name: str | None
) -> OutputFile:
    """Create the file for a command's output; `resources` closes it. Raise `ProcessStartError`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        output_file = OutputFile(folder, limit, name=name)
    except OSError as error:
        raise ProcessStartError("bash", f"no file for its output: {error}") from error
    resources.callback(output_file.close)
    return output_file


class DirectoryReport:
    """A file to which a shell writes the directory in which it ends; `resources` removes it.

    Raise `ProcessStartError` if the file cannot be created.
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
        """Return None if the shell wrote nothing, or the directory no longer exists."""
        text = os.fsdecode(os.pread(self._descriptor, _MAX_PATH_BYTES, 0)).removesuffix("\n")
        path = Path(text)
        return path if path.is_absolute() and path.is_dir() else None


def build_environment(
    environ: Mapping[str, str], cwd: Path, report: DirectoryReport | None
) -> dict[str, str]:
    """Return the environment of a command.

    The prelude removes the variables DISPATCH_SHELL_* and BASH_ENV before the command runs.
    """
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
    children: ProcessGroup, command: str, cwd: Path, env: Mapping[str, str], output_file: OutputFile
) -> ChildProcess:
    """Start bash and copy what it prints to `output_file`. Raise `ProcessStartError`."""
    try:
        child = await children.spawn(
            ["bash", "--norc", "-c", "--", command],
            cwd=cwd,
            env=env,
            stdout=output_file.descriptor,
            stderr=output_file.descriptor,
        )
    except ProcessStartError:
        output_file.close_pipe()
        raise
    output_file.close_child_end()
    children.spawn_task(output_file.copy)
    return child


FIRST_PROGRESS_SECONDS = 2.0
PROGRESS_SECONDS = 1.0


class WatchResult(Enum):
    """Why the wait ended. After TIMED_OUT and OUTPUT_FULL the command is still running."""

    ENDED = "ended"
    TIMED_OUT = "late"
    OUTPUT_FULL = "full"


async def watch_command(
    child: ChildProcess, output_file: OutputFile, seconds: float, progress: Progress | None = None
) -> WatchResult:
    """Wait for the command. Cancellation terminates it with its child processes."""
    result = WatchResult.OUTPUT_FULL
    try:
        with anyio.move_on_after(seconds) as limit:
            async with anyio.create_task_group() as tasks:
                if progress is not None:
                    tasks.start_soon(_report_progress, output_file, progress)
                tasks.start_soon(_cancel_on_event, output_file.stopped, tasks.cancel_scope)
                await child.wait()
                result = WatchResult.ENDED
                tasks.cancel_scope.cancel()
    except BaseException:
        await child.stop()
        raise
    timed_out = limit.cancelled_caught and result is not WatchResult.ENDED
    return WatchResult.TIMED_OUT if timed_out else result


async def _cancel_on_event(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def _report_progress(output_file: OutputFile, progress: Progress) -> None:
    started_at = anyio.current_time()
    await anyio.sleep(FIRST_PROGRESS_SECONDS)
    while True:
        message = bash_text.read_last_line(output_file) or f"{output_file.size:,} bytes so far"
        elapsed = round(anyio.current_time() - started_at, 1)
        await progress({"progress": elapsed, "message": message})
        await anyio.sleep(PROGRESS_SECONDS)
