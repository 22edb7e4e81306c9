"""Our ends of a child's pipes, as anyio byte streams.

The pipes of the event loop are used on Windows only: with them, waiting for a child can mean waiting
for every process that holds its pipes, and stdin can be a socket, which /dev/stdin cannot open.
"""

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from subprocess import PIPE
from typing import IO

import anyio
from anyio import lowlevel
from anyio.abc import ByteReceiveStream, ByteSendStream

Stdio = int | IO[bytes]
"""PIPE, DEVNULL, STDOUT, a file descriptor or an open file, as `subprocess` takes them."""
StdioTriple = tuple[Stdio, Stdio, Stdio]
"""stdin, stdout, stderr."""


class _PipeEnd:
    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    def _require_open(self) -> int:
        if self._descriptor < 0:
            raise anyio.ClosedResourceError
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            anyio.notify_closing(descriptor)
            os.close(descriptor)

    async def aclose(self) -> None:
        self.close()


class PipeReader(_PipeEnd, ByteReceiveStream):
    async def receive(self, max_bytes: int = 65536) -> bytes:
        await lowlevel.checkpoint()
        while True:
            try:
                chunk = os.read(self._require_open(), max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._require_open())
                continue
            if not chunk:
                raise anyio.EndOfStream
            return chunk


class PipeWriter(_PipeEnd, ByteSendStream):
    async def send(self, item: bytes) -> None:
        await lowlevel.checkpoint()
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[os.write(self._require_open(), rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._require_open())
            except BrokenPipeError as error:
                raise anyio.BrokenResourceError from error


@dataclass(frozen=True, slots=True)
class ChildPipes:
    """The three streams of a child, and our ends of those that are pipes."""

    child_streams: StdioTriple
    stdin: PipeWriter | None
    stdout: PipeReader | None
    stderr: PipeReader | None

    def close(self) -> None:
        for end in (self.stdin, self.stdout, self.stderr):
            if end is not None:
                end.close()


def open_pipes(stdio: StdioTriple, child_ends: ExitStack) -> ChildPipes:
    """Open the requested pipes. `child_ends` closes our copies of the child's ends."""
    if sys.platform == "win32":
        return ChildPipes(stdio, None, None, None)
    stdin, stdout, stderr = stdio
    with ExitStack() as opened:
        writer, child_stdin = _open_writer(opened, child_ends) if stdin == PIPE else (None, stdin)
        reader, child_stdout = (
            _open_reader(opened, child_ends) if stdout == PIPE else (None, stdout)
        )
        errors, child_stderr = (
            _open_reader(opened, child_ends) if stderr == PIPE else (None, stderr)
        )
        opened.pop_all()
    return ChildPipes((child_stdin, child_stdout, child_stderr), writer, reader, errors)


def _open_writer(cleanup: ExitStack, child_ends: ExitStack) -> tuple[PipeWriter, int]:
    theirs, ours = os.pipe()
    child_ends.callback(os.close, theirs)
    writer = PipeWriter(ours)
    cleanup.callback(writer.close)
    return writer, theirs


def _open_reader(cleanup: ExitStack, child_ends: ExitStack) -> tuple[PipeReader, int]:
    ours, theirs = os.pipe()
    child_ends.callback(os.close, theirs)
    reader = PipeReader(ours)
    cleanup.callback(reader.close)
    return reader, theirs
