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
from mcp_dispatch.wire.fds import FdReader, FdWriter, is_regular_file, standard_descriptors
from mcp_dispatch.wire.in_flight import InFlight
from mcp_dispatch.wire.jsonrpc import (
    envelope_problem,
    error_message,
    from_session_message,
    to_session_message,
    usable_id,
)
from mcp_dispatch.wire.lines import Lines, Overlong
from mcp_dispatch.wire.sdk_streams import SessionReader, SessionWriter, failed_response
from mcp_dispatch.wire.write_queue import Outflow

TOO_MANY_REQUESTS = -32000
_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may cost: bytes of a line, requests in flight, bytes of answers unread."""

    line: int = 64 * _MEBIBYTE
    requests: int = 1000
    request_bytes: int = 128 * _MEBIBYTE
    waiting_bytes: int = 8 * _MEBIBYTE
    settle_seconds: float = 600
    flush_seconds: float = 5


class RequestReader(SessionReader):
    """What the client sends. What the SDK should not see is answered here, then the next line read.

    A client that reads its answers never makes us stop reading. The stream ends with the input,
    or when the output turns out to be broken.
    """

    def __init__(
        self, lines: Lines, outflow: Outflow, in_flight: InFlight, limits: Limits, *, linger: bool
    ) -> None:
        """`linger`: at the end of the input, wait for the requests in flight."""
        super().__init__()
        self._lines = lines
        self._outflow = outflow
        self._in_flight = in_flight
        self._limits = limits
        self._linger = linger
        self._reading: anyio.CancelScope | None = None
        outflow.on_broken(self._stop_reading)

    async def receive(self) -> SessionMessage | Exception:
        while not self._closed:
            message = await self._accept(await self._next_line())
            if message is not None:
                return message
        raise anyio.ClosedResourceError

    async def _next_line(self) -> bytes | Overlong:
        if not self._outflow.broken:
            with anyio.CancelScope() as self._reading:
                try:
                    return await self._lines.next()
                except anyio.EndOfStream:
                    await self._last_answers()
                except anyio.BrokenResourceError:
                    pass
                finally:
                    self._reading = None
        raise anyio.EndOfStream

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    async def _last_answers(self) -> None:
        # Nobody closes a file to say "stop": its end only says that there are no more requests.
        if self._linger:
            with anyio.move_on_after(self._limits.settle_seconds):
                await self._in_flight.settled()

    async def _accept(self, line: bytes | Overlong) -> SessionMessage | None:
        if isinstance(line, Overlong):
            text = f"a message of {line.length} bytes is over the limit of {self._limits.line}"
            return await self._refuse(None, INVALID_REQUEST, f"Invalid Request: {text}")
        try:
            message = decode(line)
        except Undecodable as error:
            return await self._refuse(None, PARSE_ERROR, f"Parse error: {error}")
        problem = envelope_problem(message)
        if problem is None and isinstance(message, dict):
            return await self._admit(message, len(line))
        if problem is not None and problem.awaited is None:
            return await self._refuse(problem.id, problem.code, problem.message)
        return failed_response(problem)

    async def _admit(self, message: JsonObject, size: int) -> SessionMessage | None:
        id, method = usable_id(message.get("id")), message.get("method")
        if id is None or not isinstance(method, str):
            return to_session_message(message)
        if self._in_flight.holds(id):
            text = "Invalid Request: this id is already in flight; use a new one"
            return await self._refuse(id, INVALID_REQUEST, text)
        if not self._in_flight.has_room(size):
            text = f"too many requests in flight ({len(self._in_flight)}); wait for answers"
            return await self._refuse(id, TOO_MANY_REQUESTS, text)
        self._in_flight.enter(id, method, size)
        unanswered = partial(self._unanswered, id)
        return to_session_message(message, ServerMessageMetadata(on_request_unanswered=unanswered))

    async def _unanswered(self, id: RequestId) -> None:
        self._in_flight.leave(id)

    async def _refuse(self, id: RequestId | None, code: int, text: str) -> None:
        # Waits only for a client that does not read even its refusals.
        await self._outflow.room()
        self._outflow.post(_line(error_message(id, code, text)))


class ResponseWriter(SessionWriter):
    """What we send. `send` returns when the client's pipe has taken the message."""

    def __init__(self, outflow: Outflow, in_flight: InFlight) -> None:
        super().__init__()
        self._outflow = outflow
        self._in_flight = in_flight

    async def send(self, item: SessionMessage, /) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        gone = self._post(from_session_message(item))
        await gone.wait()
        if self._outflow.broken:
            raise anyio.BrokenResourceError

    def _post(self, message: JsonObject) -> anyio.Event:
        id = usable_id(message.get("id"))
        if "method" in message or id is None:
            return self._outflow.post(_line(message))
        return self._outflow.post(_answer_line(message, id), partial(self._in_flight.leave, id))


@dataclass(frozen=True, slots=True)
class Stdio:
    """The two streams for the SDK, and the outflow whose `room` a call awaits before it runs."""

    reader: RequestReader
    writer: ResponseWriter
    outflow: Outflow


@asynccontextmanager
async def stdio_streams(
    limits: Limits | None = None, descriptors: tuple[int | None, int | None] | None = None
) -> AsyncGenerator[Stdio]:
    """Serve on fd 0 and 1, taken over meanwhile, or on the given descriptors, which stay yours.

    At the end, also when cancelled, answers already given are still written, for a bounded time.
    """
    limits = limits or Limits()
    with ExitStack() as stack:
        stdin, stdout = descriptors or stack.enter_context(standard_descriptors())
        source = None if stdin is None else FdReader(stdin)
        sink = None if stdout is None else FdWriter(stdout)
        for each in (source, sink):
            if each is not None:
                stack.callback(each.close)
        outflow = Outflow(_no_output if sink is None else sink.send, limits.waiting_bytes)
        in_flight = InFlight(limits.requests, limits.request_bytes)
        lines = Lines(_no_input if source is None else source.receive, limits.line)
        linger = stdin is not None and is_regular_file(stdin)
        reader = RequestReader(lines, outflow, in_flight, limits, linger=linger)
        async with _written(outflow, limits.flush_seconds):
            yield Stdio(reader, ResponseWriter(outflow, in_flight), outflow)


@asynccontextmanager
async def _written(outflow: Outflow, flush_seconds: float) -> AsyncGenerator[None]:
    # Shielded, so that what is answered during a cancellation can still be written.
    writing = anyio.CancelScope(shield=True)

    async def write() -> None:
        with writing:
            await outflow.run()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        try:
            yield
        finally:
            with anyio.move_on_after(flush_seconds, shield=True):
                await outflow.drained()
            writing.cancel()


async def _no_input() -> bytes:
    return b""


async def _no_output(_: bytes) -> None:
    raise anyio.BrokenResourceError


def _line(message: JsonObject) -> bytes:
    return encode(message) + b"\n"


def _answer_line(message: JsonObject, id: RequestId) -> bytes:
    try:
        return _line(message)
    except Unencodable as error:
        return _line(error_message(id, INTERNAL_ERROR, f"the answer has {error}"))
