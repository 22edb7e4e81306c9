"""The transport of a server that is a child of ours: its process and its two pipes."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import RequestId

from mcp_dispatch.upstream.config.model import MESSAGE_BYTES
from mcp_dispatch.upstream.errors import UpstreamError
from mcp_dispatch.upstream.transports.process import ServerProcess
from mcp_dispatch.wire.lines import Lines
from mcp_dispatch.wire.sdk_streams import (
    MessageReader,
    MessageWriter,
    OnNoise,
    SessionReader,
    SessionWriter,
)

_MOST_UNSENT: Final = 1_000

Receive = Callable[[], Awaitable[bytes]]
Send = Callable[[bytes], Awaitable[None]]

_GONE: Final = (
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    OSError,
)


class Pipe:
    """`over` is set once either end has failed; `fault` says why, where it is the child's doing.

    Lines are written by `write_lines`, a task of its own: a request that is cancelled while its
    line is half-way down the pipe must not leave half a line there.
    """

    def __init__(
        self, receive: Receive, send: Send, on_noise: OnNoise, *, line_limit: int = MESSAGE_BYTES
    ) -> None:
        self._receive = receive
        self._send = send
        self._on_noise = on_noise
        self._limit = line_limit
        self._next: MemoryObjectSendStream[tuple[bytes, anyio.Event]] | None = None
        self.over = anyio.Event()
        self.fault: str | None = None
        self.reader = MessageReader(Lines(self._read, line_limit), self._noise)
        self.writer = _CountingWriter(self._write)

    async def write_lines(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        # Not made before there is somebody to close it.
        self._next, lines = anyio.create_memory_object_stream[tuple[bytes, anyio.Event]](0)
        async with self._next, lines:
            task_status.started()
            async for line, written in lines:
                try:
                    await self._send(line)
                except _GONE:
                    self.over.set()
                    return
                finally:
                    written.set()

    async def _write(self, line: bytes) -> None:
        written = anyio.Event()
        assert self._next is not None, "write_lines runs"
        await self._next.send((line, written))
        await written.wait()
        if self.over.is_set():
            raise anyio.BrokenResourceError

    async def _read(self) -> bytes:
        if self.writer.unsent > _MOST_UNSENT:
            self._break("keeps asking and does not read the answers")
        if self.fault is not None:
            raise anyio.EndOfStream
        try:
            chunk = await self._receive()
        except _GONE:
            chunk = b""
        if not chunk:
            self.over.set()
        return chunk

    def _noise(self, kind: str, head: bytes) -> None:
        self._on_noise(kind, head)
        if kind == "overlong":
            # It may have been the answer to any open call, and none of them should wait for it.
            self._break(f"sent a line of more than {self._limit} bytes")

    def _break(self, fault: str) -> None:
        self.fault = fault
        self.over.set()


class _CountingWriter(MessageWriter):
    """Knows how many messages wait for the child to read."""

    unsent = 0

    async def send(self, item: SessionMessage, /) -> None:
        self.unsent += 1
        try:
            await super().send(item)
        finally:
            self.unsent -= 1


# Seconds that a pipe may stay open once the process has ended.
_LINGER: Final = 0.5


class StdioTransport:
    """Over when either pipe fails or the process ends, whichever is noticed first."""

    def __init__(
        self, process: ServerProcess, on_noise: OnNoise, *, line_limit: int = MESSAGE_BYTES
    ) -> None:
        self._process = process
        self._pipe = Pipe(
            process.stdout.receive, process.stdin.send, on_noise, line_limit=line_limit
        )

    @property
    def has_headers(self) -> bool:
        return False

    @property
    def renewals(self) -> int:
        return 0

    @property
    def reader(self) -> SessionReader:
        return self._pipe.reader

    @property
    def writer(self) -> SessionWriter:
        return self._pipe.writer

    @property
    def over(self) -> anyio.Event:
        return self._pipe.over

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._notice_exit)
            await self._pipe.write_lines(task_status=task_status)

    def agreed(self, version: str) -> None:
        """Nothing on a pipe depends on the version."""

    def loss(self, id: RequestId) -> UpstreamError | None:
        """On a pipe nothing is lost but all."""

    async def end(self, patience: float) -> str:
        return self._pipe.fault or await self._process.exit_text(patience) or "closed its output"

    async def _notice_exit(self) -> None:
        """A descendant may hold the pipes open, so that the end of the process is no end of file."""
        await self._process.child.wait()
        with anyio.move_on_after(_LINGER):
            await self._pipe.over.wait()
        self._pipe.over.set()
