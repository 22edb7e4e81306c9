"""Standard input and output of the server as the SDK's streams, with limits on what a client costs."""

from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, RequestId

from mcp_dispatch.concurrency.change_signal import ChangeSignal
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.wire.codec import Undecodable, Unencodable, decode, encode
from mcp_dispatch.wire.fds import FdReader, FdWriter, acquire_standard_descriptors, is_regular_file
from mcp_dispatch.wire.jsonrpc import (
    build_error_message,
    check_envelope,
    from_session_message,
    parse_request_id,
    to_session_message,
)
from mcp_dispatch.wire.lines import BoundedLineReader, OverlongLine
from mcp_dispatch.wire.sdk import (
    ServerMessageMetadata,
    SessionMessage,
    SessionReader,
    SessionWriter,
    coerce_request_id,
)
from mcp_dispatch.wire.sdk_streams import build_failed_response
from mcp_dispatch.wire.write_queue import WriteQueue

TOO_MANY_REQUESTS: Final = -32000
_MEBIBYTE: Final = 1024 * 1024
_OPEN_ENDED_METHODS: Final = frozenset({"subscriptions/listen"})


@dataclass(frozen=True, slots=True)
class StdioLimits:
    """Limits of one client."""

    line_bytes: int = 64 * _MEBIBYTE
    requests: int = 1000
    """Requests in flight."""

    request_bytes: int = 128 * _MEBIBYTE
    """Bytes of all requests in flight."""

    queued_bytes: int = 8 * _MEBIBYTE
    """Bytes of responses that the client has not read."""

    settle_seconds: float = 600
    """How long requests of a regular file may run after the end of the file."""

    flush_seconds: float = 5
    """How long queued responses may take to be written when the server stops."""


@dataclass(frozen=True, slots=True)
class _RequestInFlight:
    size: int
    open_ended: bool


class InFlightRequests:
    """Requests that were passed to the SDK and have no response yet, limited in number and bytes.

    Ids are compared as the SDK correlates them: "7" and 7 are the same id.
    """

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._requests: dict[RequestId, _RequestInFlight] = {}
        self._bytes = 0
        self._request_removed = ChangeSignal()

    def __len__(self) -> int:
        return len(self._requests)

    def contains(self, id: RequestId) -> bool:
        return coerce_request_id(id) in self._requests

    def has_room(self, size: int) -> bool:
        """Whether a request of `size` bytes may be added; the first one may have any size."""
        if not self._requests:
            return True
        return len(self._requests) < self._max_requests and self._bytes + size <= self._max_bytes

    def add(self, id: RequestId, method: str, size: int) -> None:
        is_open_ended = method in _OPEN_ENDED_METHODS
        self._requests[coerce_request_id(id)] = _RequestInFlight(size, is_open_ended)
        self._bytes += size

    def remove(self, id: RequestId) -> None:
        """Remove a request that was answered or never will be. Unknown ids are ignored."""
        request = self._requests.pop(coerce_request_id(id), None)
        if request is None:
            return
        self._bytes -= request.size
        self._request_removed.notify()

    async def wait_until_settled(self) -> None:
        """Wait until all requests are answered but those that last as long as the connection."""
        await self._request_removed.wait_until(
            lambda: all(request.open_ended for request in self._requests.values())
        )


class RequestReader(SessionReader):
    """Reads the messages of the client and answers invalid ones itself.

    Reading never pauses for a client that reads its responses. The stream ends with the input,
    or when the output breaks.
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
        """`wait_for_in_flight`: when the input ends, let the requests in flight finish."""
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
        # The end of a pipe means "stop"; the end of a file only means "no more requests".
        if self._wait_for_in_flight:
            with anyio.move_on_after(self._limits.settle_seconds):
                await self._in_flight.wait_until_settled()

    async def _accept(self, line: bytes | OverlongLine) -> SessionMessage | None:
        """Return the message for the SDK, or None if the line was answered here."""
        if isinstance(line, OverlongLine):
            limit = self._limits.line_bytes
            text = f"a message of {line.length} bytes is over the limit of {limit}"
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
        remove = partial(self._remove_unanswered, id)
        return to_session_message(message, ServerMessageMetadata(on_request_unanswered=remove))

    async def _remove_unanswered(self, id: RequestId) -> None:
        self._in_flight.remove(id)

    async def _refuse(self, id: RequestId | None, code: int, text: str) -> None:
        # This waits only for a client that does not even read its error responses.
        await self._write_queue.wait_for_capacity()
        self._write_queue.enqueue(_encode_line(build_error_message(id, code, text)))


class ResponseWriter(SessionWriter):
    """Writes messages to the client. `send` returns when the pipe has accepted the message."""

    def __init__(self, write_queue: WriteQueue, in_flight: InFlightRequests) -> None:
        super().__init__()
        self._write_queue = write_queue
        self._in_flight = in_flight

    async def send(self, item: SessionMessage, /) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        written = self._enqueue(from_session_message(item))
        await written.wait()
        if self._write_queue.broken:
            raise anyio.BrokenResourceError

    def _enqueue(self, message: JsonObject) -> anyio.Event:
        id = parse_request_id(message.get("id"))
        if "method" in message or id is None:
            return self._write_queue.enqueue(_encode_line(message))
        remove = partial(self._in_flight.remove, id)
        return self._write_queue.enqueue(_encode_response(message, id), remove)


@dataclass(frozen=True, slots=True)
class StdioStreams:
    """The two streams for the SDK, and the queue whose capacity a call waits for before it runs."""

    reader: RequestReader
    writer: ResponseWriter
    write_queue: WriteQueue


@asynccontextmanager
async def open_stdio(
    limits: StdioLimits | None = None, descriptors: tuple[int | None, int | None] | None = None
) -> AsyncGenerator[StdioStreams]:
    """Serve on fd 0 and 1, which are taken over meanwhile, or on the descriptors of the caller.

    At the end, also after a cancellation, queued responses are still written for a bounded time.
    """
    limits = limits or StdioLimits()
    with ExitStack() as stack:
        stdin, stdout = descriptors or stack.enter_context(acquire_standard_descriptors())
        source = None if stdin is None else FdReader(stdin)
        sink = None if stdout is None else FdWriter(stdout)
        for stream in (source, sink):
            if stream is not None:
                stack.callback(stream.close)
        write_queue = WriteQueue(_reject_write if sink is None else sink.send, limits.queued_bytes)
        in_flight = InFlightRequests(limits.requests, limits.request_bytes)
        receive = _read_nothing if source is None else source.receive
        reader = RequestReader(
            BoundedLineReader(receive, limits.line_bytes),
            write_queue,
            in_flight,
            limits,
            wait_for_in_flight=stdin is not None and is_regular_file(stdin),
        )
        async with _run_writer(write_queue, limits.flush_seconds):
            yield StdioStreams(reader, ResponseWriter(write_queue, in_flight), write_queue)


@asynccontextmanager
async def _run_writer(write_queue: WriteQueue, flush_seconds: float) -> AsyncGenerator[None]:
    # Shielded, so that responses sent during a cancellation can still be written.
    write_scope = anyio.CancelScope(shield=True)

    async def write() -> None:
        with write_scope:
            await write_queue.run()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        try:
            yield
        finally:
            with anyio.move_on_after(flush_seconds, shield=True):
                await write_queue.wait_until_empty()
            write_scope.cancel()


async def _read_nothing() -> bytes:
    return b""


async def _reject_write(_: bytes) -> None:
    raise anyio.BrokenResourceError


def _encode_line(message: JsonObject) -> bytes:
    return encode(message) + b"\n"


def _encode_response(message: JsonObject, id: RequestId) -> bytes:
    """Encode a response; one that has no JSON form becomes an error response."""
    try:
        return _encode_line(message)
    except Unencodable as error:
        return _encode_line(build_error_message(id, INTERNAL_ERROR, f"the answer has {error}"))
