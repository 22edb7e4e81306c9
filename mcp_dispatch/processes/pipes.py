"""Our ends of a child's pipes, as anyio byte streams.

The event loop's own are for Windows only: with them, waiting for a child can mean waiting for
everybody who holds its pipes, and a child's stdin can be a socket, which /dev/stdin cannot open.
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
ThreeStreams = tuple[Stdio, Stdio, Stdio]
"""stdin, stdout, stderr."""


class _PipeEnd:
    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    def _open_descriptor(self) -> int:
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
                chunk = os.read(self._open_descriptor(), max_bytes)
            except BlockingIOError:
                await anyio.wait_readable(self._open_descriptor())
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
                rest = rest[os.write(self._open_descriptor(), rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._open_descriptor())
            except BrokenPipeError as error:
                raise anyio.BrokenResourceError from error


@dataclass(frozen=True, slots=True)
class Plumbing:
    """What the child gets as its three streams, and our ends of those that are pipes."""

    theirs: ThreeStreams
    stdin: PipeWriter | None
    stdout: PipeReader | None
    stderr: PipeReader | None

    def close(self) -> None:
        for end in (self.stdin, self.stdout, self.stderr):
            if end is not None:
                end.close()


def connect(stdio: ThreeStreams, child_ends: ExitStack) -> Plumbing:
    """Opens the pipes asked for; `child_ends` closes the child's ends, which it has copies of."""
    if sys.platform == "win32":
        return Plumbing(stdio, None, None, None)
    stdin, stdout, stderr = stdio
    with ExitStack() as opened:
        writer, child_stdin = _writer(opened, child_ends) if stdin == PIPE else (None, stdin)
        reader, child_stdout = _reader(opened, child_ends) if stdout == PIPE else (None, stdout)
        errors, child_stderr = _reader(opened, child_ends) if stderr == PIPE else (None, stderr)
        opened.pop_all()
    return Plumbing((child_stdin, child_stdout, child_stderr), writer, reader, errors)


def _writer(opened: ExitStack, child_ends: ExitStack) -> tuple[PipeWriter, int]:
    theirs, ours = os.pipe()
    child_ends.callback(os.close, theirs)
    writer = PipeWriter(ours)
    opened.callback(writer.close)
    return writer, theirs


def _reader(opened: ExitStack, child_ends: ExitStack) -> tuple[PipeReader, int]:
    ours, theirs = os.pipe()
    child_ends.callback(os.close, theirs)
    reader = PipeReader(ours)
    opened.callback(reader.close)
    return reader, theirs
