"""The transport of a server that runs as a child process."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectSendStream
from mcp_types import RequestId

from mcp_dispatch.upstream.config.model import MAX_MESSAGE_BYTES
from mcp_dispatch.upstream.errors import UpstreamError
from mcp_dispatch.upstream.transports.process import ServerProcess
from mcp_dispatch.wire.lines import BoundedLineReader
from mcp_dispatch.wire.sdk import SessionMessage
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
    """`closed` is set when either pipe has failed; `fault` says why if the child caused it.

    Lines are written by `write_lines`, which runs in a task of its own: a request that is cancelled
    while its line is being written must not leave half a line in the pipe.
    """

    def __init__(
        self,
        receive: ReceiveBytes,
        send: SendBytes,
        on_invalid_line: OnInvalidLine,
        *,
        line_limit: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._receive = receive
        self._send = send
        self._on_invalid_line = on_invalid_line
        self._max_line_bytes = line_limit
        self._outgoing: MemoryObjectSendStream[tuple[bytes, anyio.Event]] | None = None
        self.closed = anyio.Event()
        self.fault: str | None = None
        self.reader = MessageReader(
            BoundedLineReader(self._read, line_limit), self._handle_invalid_line
        )
        self.writer = _CountingWriter(self._write)

    async def write_lines(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        # Created here, where the stream is also closed.
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

    def _handle_invalid_line(self, kind: str, head: bytes) -> None:
        self._on_invalid_line(kind, head)
        if kind == "overlong":
            # It may have been the answer to any open call, so all of them fail now.
            self._fail(f"sent a line of more than {self._max_line_bytes} bytes")

    def _fail(self, fault: str) -> None:
        self.fault = fault
        self.closed.set()


class _CountingWriter(MessageWriter):
    """Counts the messages that the child has not read yet."""

    unsent = 0

    async def send(self, item: SessionMessage, /) -> None:
        self.unsent += 1
        try:
            await super().send(item)
        finally:
            self.unsent -= 1


# Seconds that a pipe may stay open after the process has ended.
_LINGER_SECONDS: Final = 0.5


class StdioTransport:
    """Closed when either pipe fails or the process ends, whichever is detected first."""

    has_headers = False
    renewals = 0

    def __init__(
        self,
        process: ServerProcess,
        on_invalid_line: OnInvalidLine,
        *,
        line_limit: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._process = process
        self._pipe = StdioPipe(
            process.stdout.receive, process.stdin.send, on_invalid_line, line_limit=line_limit
        )
        self.reader: SessionReader = self._pipe.reader
        self.writer: SessionWriter = self._pipe.writer
        self.closed = self._pipe.closed

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_exit)
            await self._pipe.write_lines(task_status=task_status)

    def set_protocol_version(self, version: str) -> None:
        """Do nothing: a pipe does not depend on the version."""

    def pop_error(self, id: RequestId) -> UpstreamError | None:
        """Return None: on a pipe, requests are only lost together with the connection."""

    async def wait_for_end_reason(self, timeout: float) -> str:
        return (
            self._pipe.fault
            or await self._process.wait_for_exit_text(timeout)
            or "closed its output"
        )

    async def _watch_exit(self) -> None:
        """Close when the process ends: a descendant may keep the pipes open."""
        await self._process.child.wait()
        with anyio.move_on_after(_LINGER_SECONDS):
            await self._pipe.closed.wait()
        self._pipe.closed.set()
