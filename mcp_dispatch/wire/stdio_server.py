"""Our own standard input and output as the SDK's streams, guarded against what clients send."""

from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RequestId

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.wire.codec import Undecodable, Unencodable, decode, encode
from mcp_dispatch.wire.fds import FdReader, FdWriter, acquire_standard_descriptors, is_regular_file
from mcp_dispatch.wire.in_flight import InFlightRequests
from mcp_dispatch.wire.jsonrpc import (
    build_error_message,
    check_envelope,
    from_session_message,
    parse_request_id,
    to_session_message,
)
from mcp_dispatch.wire.lines import BoundedLineReader, OverlongLine
from mcp_dispatch.wire.sdk_streams import SessionReader, SessionWriter, build_failed_response
from mcp_dispatch.wire.write_queue import WriteQueue

TOO_MANY_REQUESTS = -32000
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StdioLimits:
    """What one client may cost: bytes of a line, requests in flight, bytes of answers unread."""

    line_bytes: int = 64 * _MEBIBYTE
    requests: int = 1000
    request_bytes: int = 128 * _MEBIBYTE
    queued_bytes: int = 8 * _MEBIBYTE
    settle_seconds: float = 600
    flush_seconds: float = 5


class RequestReader(SessionReader):
    """What the client sends. What the SDK should not see is answered here, then the next line read.

    A client that reads its answers never makes us stop reading. The stream ends with the input,
    or when the output turns out to be broken.
    """

    def __init__(
        self,
        lines: BoundedLineReader,
        write_queue: WriteQueue,
        in_flight: InFlightRequests,
        limits: StdioLimits,
        *,
        wait_for_in_flight: bool,
    ) -> None:
        """`linger`: at the end of the input, wait for the requests in flight."""
        super().__init__()
        self._lines = lines
        self._write_queue = write_queue
        self._in_flight = in_flight
        self._limits = limits
        self._wait_for_in_flight = wait_for_in_flight
        self._read_scope: anyio.CancelScope | None = None
        write_queue.on_broken(self._stop_reading)

    async def receive(self) -> SessionMessage | Exception:
        while not self._closed:
            message = await self._accept(await self._read_line())
            if message is not None:
                return message
        raise anyio.ClosedResourceError

    async def _read_line(self) -> bytes | OverlongLine:
        if not self._write_queue.broken:
            with anyio.CancelScope() as self._read_scope:
                try:
                    return await self._lines.read_line()
                except anyio.EndOfStream:
                    await self._finish_in_flight()
                except anyio.BrokenResourceError:
                    pass
                finally:
                    self._read_scope = None
        raise anyio.EndOfStream

    def _stop_reading(self) -> None:
        if self._read_scope is not None:
            self._read_scope.cancel()

    async def _finish_in_flight(self) -> None:
        # Nobody closes a file to say "stop": its end only says that there are no more requests.
        if self._wait_for_in_flight:
            with anyio.move_on_after(self._limits.settle_seconds):
                await self._in_flight.wait_until_settled()

    async def _accept(self, line: bytes | OverlongLine) -> SessionMessage | None:
        if isinstance(line, OverlongLine):
            text = (
                f"a message of {line.length} bytes is over the limit of {self._limits.line_bytes}"
            )
            return await self._refuse(None, INVALID_REQUEST, f"Invalid Request: {text}")
        try:
            message = decode(line)
        except Undecodable as error:
            return await self._refuse(None, PARSE_ERROR, f"Parse error: {error}")
        problem = check_envelope(message)
        if problem is None and isinstance(message, dict):
            return await self._admit(message, len(line))
        if problem is not None and problem.response_id is None:
            return await self._refuse(problem.id, problem.code, problem.message)
        return build_failed_response(problem)

    async def _admit(self, message: JsonObject, size: int) -> SessionMessage | None:
        id, method = parse_request_id(message.get("id")), message.get("method")
        if id is None or not isinstance(method, str):
            return to_session_message(message)
        if self._in_flight.contains(id):
            text = "Invalid Request: this id is already in flight; use a new one"
            return await self._refuse(id, INVALID_REQUEST, text)
        if not self._in_flight.has_room(size):
            text = f"too many requests in flight ({len(self._in_flight)}); wait for answers"
            return await self._refuse(id, TOO_MANY_REQUESTS, text)
        self._in_flight.add(id, method, size)
        unanswered = partial(self._remove_unanswered, id)
        return to_session_message(message, ServerMessageMetadata(on_request_unanswered=unanswered))

    async def _remove_unanswered(self, id: RequestId) -> None:
        self._in_flight.remove(id)

    async def _refuse(self, id: RequestId | None, code: int, text: str) -> None:
        # Waits only for a client that does not read even its refusals.
        await self._write_queue.wait_for_capacity()
        self._write_queue.enqueue(_encode_line(build_error_message(id, code, text)))


class ResponseWriter(SessionWriter):
    """What we send. `send` returns when the client's pipe has taken the message."""

    def __init__(self, write_queue: WriteQueue, in_flight: InFlightRequests) -> None:
        super().__init__()
        self._write_queue = write_queue
        self._in_flight = in_flight

    async def send(self, item: SessionMessage, /) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        gone = self._enqueue(from_session_message(item))
        await gone.wait()
        if self._write_queue.broken:
            raise anyio.BrokenResourceError

    def _enqueue(self, message: JsonObject) -> anyio.Event:
        id = parse_request_id(message.get("id"))
        if "method" in message or id is None:
            return self._write_queue.enqueue(_encode_line(message))
        return self._write_queue.enqueue(
            _encode_response(message, id), partial(self._in_flight.remove, id)
        )


@dataclass(frozen=True, slots=True)
class StdioStreams:
    """The two streams for the SDK, and the outflow whose `room` a call awaits before it runs."""

    reader: RequestReader
    writer: ResponseWriter
    write_queue: WriteQueue


@asynccontextmanager
async def open_stdio(
    limits: StdioLimits | None = None, descriptors: tuple[int | None, int | None] | None = None
) -> AsyncGenerator[StdioStreams]:
    """Serve on fd 0 and 1, taken over meanwhile, or on the given descriptors, which stay yours.

    At the end, also when cancelled, answers already given are still written, for a bounded time.
    """
    limits = limits or StdioLimits()
    with ExitStack() as stack:
        stdin, stdout = descriptors or stack.enter_context(acquire_standard_descriptors())
        source = None if stdin is None else FdReader(stdin)
        sink = None if stdout is None else FdWriter(stdout)
        for each in (source, sink):
            if each is not None:
                stack.callback(each.close)
        outflow = WriteQueue(_reject_write if sink is None else sink.send, limits.queued_bytes)
        in_flight = InFlightRequests(limits.requests, limits.request_bytes)
        lines = BoundedLineReader(
            _read_nothing if source is None else source.receive, limits.line_bytes
        )
        linger = stdin is not None and is_regular_file(stdin)
        reader = RequestReader(lines, outflow, in_flight, limits, wait_for_in_flight=linger)
        async with _run_writer(outflow, limits.flush_seconds):
            yield StdioStreams(reader, ResponseWriter(outflow, in_flight), outflow)


@asynccontextmanager
async def _run_writer(write_queue: WriteQueue, flush_seconds: float) -> AsyncGenerator[None]:
    # Shielded, so that what is answered during a cancellation can still be written.
    writing = anyio.CancelScope(shield=True)

    async def write() -> None:
        with writing:
            await write_queue.run()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        try:
            yield
        finally:
            with anyio.move_on_after(flush_seconds, shield=True):
                await write_queue.wait_until_empty()
            writing.cancel()


async def _read_nothing() -> bytes:
    return b""


async def _reject_write(_: bytes) -> None:
    raise anyio.BrokenResourceError


def _encode_line(message: JsonObject) -> bytes:
    return encode(message) + b"\n"


def _encode_response(message: JsonObject, id: RequestId) -> bytes:
    try:
        return _encode_line(message)
    except Unencodable as error:
        return _encode_line(build_error_message(id, INTERNAL_ERROR, f"the answer has {error}"))
