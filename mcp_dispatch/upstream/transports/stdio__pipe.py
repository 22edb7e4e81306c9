"""The two ends of a child's stdio as the SDK's streams, which know when the child is lost."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from mcp_dispatch.upstream.config.model import MESSAGE_BYTES
from mcp_dispatch.wire.lines import Lines
from mcp_dispatch.wire.sdk_streams import MessageReader, MessageWriter, OnNoise

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
