"""The transport of a server that is a child of ours: its process and its two pipes."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import RequestId

from mcp_dispatch.upstream.config.model import MAX_MESSAGE_BYTES
from mcp_dispatch.upstream.errors import UpstreamError
from mcp_dispatch.upstream.transports.process import ServerProcess
from mcp_dispatch.wire.lines import BoundedLineReader
from mcp_dispatch.wire.sdk_streams import (
    MessageReader,
    MessageWriter,
    OnInvalidLine,
    SessionReader,
    SessionWriter,
)

_MAX_UNSENT: Final = 1_000

ReceiveBytes = Callable[[], Awaitable[bytes]]
SendBytes = Callable[[bytes], Awaitable[None]]

_PIPE_ERRORS: Final = (
    anyio.EndOfStream,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    OSError,
)


class StdioPipe:
    """`over` is set once either end has failed; `fault` says why, where it is the child's doing.

    Lines are written by `write_lines`, a task of its own: a request that is cancelled while its
    line is half-way down the pipe must not leave half a line there.
    """

    def __init__(
        self,
        receive: ReceiveBytes,
        send: SendBytes,
        on_noise: OnInvalidLine,
        *,
        line_limit: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._receive = receive
        self._send = send
        self._on_noise = on_noise
        self._max_line_bytes = line_limit
        self._outgoing: MemoryObjectSendStream[tuple[bytes, anyio.Event]] | None = None
        self.closed = anyio.Event()
        self.fault: str | None = None
        self.reader = MessageReader(BoundedLineReader(self._read, line_limit), self._handle_noise)
        self.writer = _CountingWriter(self._write)

    async def write_lines(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        # Not made before there is somebody to close it.
        self._outgoing, lines = anyio.create_memory_object_stream[tuple[bytes, anyio.Event]](0)
        async with self._outgoing, lines:
            task_status.started()
            async for line, written in lines:
                try:
                    await self._send(line)
                except _PIPE_ERRORS:
                    self.closed.set()
                    return
                finally:
                    written.set()

    async def _write(self, line: bytes) -> None:
        written = anyio.Event()
        assert self._outgoing is not None, "write_lines runs"
        await self._outgoing.send((line, written))
        await written.wait()
        if self.closed.is_set():
            raise anyio.BrokenResourceError

    async def _read(self) -> bytes:
        if self.writer.unsent > _MAX_UNSENT:
            self._fail("keeps asking and does not read the answers")
        if self.fault is not None:
            raise anyio.EndOfStream
        try:
            chunk = await self._receive()
        except _PIPE_ERRORS:
            chunk = b""
        if not chunk:
            self.closed.set()
        return chunk

    def _handle_noise(self, kind: str, head: bytes) -> None:
        self._on_noise(kind, head)
        if kind == "overlong":
            # It may have been the answer to any open call, and none of them should wait for it.
            self._fail(f"sent a line of more than {self._max_line_bytes} bytes")

    def _fail(self, fault: str) -> None:
        self.fault = fault
        self.closed.set()


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
_LINGER_SECONDS: Final = 0.5


class StdioTransport:
    """Over when either pipe fails or the process ends, whichever is noticed first."""

    def __init__(
        self,
        process: ServerProcess,
        on_noise: OnInvalidLine,
        *,
        line_limit: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._process = process
        self._pipe = StdioPipe(
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
    def closed(self) -> anyio.Event:
        return self._pipe.closed

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_exit)
            await self._pipe.write_lines(task_status=task_status)

    def set_protocol_version(self, version: str) -> None:
        """Nothing on a pipe depends on the version."""

    def pop_error(self, id: RequestId) -> UpstreamError | None:
        """On a pipe nothing is lost but all."""

    async def wait_for_end_reason(self, timeout: float) -> str:
        return (
            self._pipe.fault
            or await self._process.wait_for_exit_text(timeout)
            or "closed its output"
        )

    async def _watch_exit(self) -> None:
        """A descendant may hold the pipes open, so that the end of the process is no end of file."""
        await self._process.child.wait()
        with anyio.move_on_after(_LINGER_SECONDS):
            await self._pipe.closed.wait()
        self._pipe.closed.set()
