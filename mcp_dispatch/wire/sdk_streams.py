"""The SDK's read and write streams over lines of bytes, for the pipes of an upstream."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import SessionMessage

from mcp_dispatch.wire.codec import Undecodable, decode, encode
from mcp_dispatch.wire.jsonrpc import (
    EnvelopeProblem,
    build_error_message,
    check_envelope,
    from_session_message,
    to_session_message,
)
from mcp_dispatch.wire.lines import BoundedLineReader, OverlongLine

_SAMPLE_BYTES = 200

OnInvalidLine = Callable[[str, bytes], None]
"""Takes the kind (`overlong`, `undecodable`, `envelope`) and the first bytes of the line."""


class SessionReader(ABC):
    """What the SDK expects of a read stream, all but `receive` itself."""

    def __init__(self) -> None:
        self._closed = False

    @abstractmethod
    async def receive(self) -> SessionMessage | Exception:
        """The next message. Raises `anyio.EndOfStream`."""

    async def aclose(self) -> None:
        self._closed = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class MessageReader(SessionReader):
    """The messages of an upstream. A line that is none is counted, reported and skipped.

    A broken response fails the request that it was meant for, instead of leaving it to wait.
    """

    def __init__(self, lines: BoundedLineReader, on_invalid_line: OnInvalidLine) -> None:
        super().__init__()
        self._lines = lines
        self._on_invalid_line = on_invalid_line
        self.invalid_lines: Counter[str] = Counter()

    async def receive(self) -> SessionMessage | Exception:
        while not self._closed:
            try:
                line = await self._lines.read_line()
            except anyio.BrokenResourceError as error:
                raise anyio.EndOfStream from error
            message = self._parse_line(line)
            if message is not None:
                return message
        raise anyio.ClosedResourceError

    def _parse_line(self, line: bytes | OverlongLine) -> SessionMessage | None:
        if isinstance(line, OverlongLine):
            return self._report_invalid("overlong", line.head)
        try:
            message = decode(line)
        except Undecodable:
            return self._report_invalid("undecodable", line)
        problem = check_envelope(message)
        if problem is None and isinstance(message, dict):
            return to_session_message(message)
        self._report_invalid("envelope", line)
        return build_failed_response(problem)

    def _report_invalid(self, kind: str, line: bytes) -> None:
        self.invalid_lines[kind] += 1
        self._on_invalid_line(kind, line[:_SAMPLE_BYTES])


def build_failed_response(problem: EnvelopeProblem | None) -> SessionMessage | None:
    """What the SDK is told in place of a broken response, so that its waiter learns of it."""
    if problem is None or problem.response_id is None:
        return None
    return to_session_message(
        build_error_message(problem.response_id, problem.code, problem.message)
    )


class SessionWriter(ABC):
    """What the SDK expects of a write stream, all but `send` itself."""

    def __init__(self) -> None:
        self._closed = False

    @abstractmethod
    async def send(self, item: SessionMessage, /) -> None: ...

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class MessageWriter(SessionWriter):
    """Messages to an upstream, one at a time.

    `send` is given whole lines. Cancelled half-way it must finish that line before the next, as
    `FdWriter` and anyio's process streams do: half a line would spoil every later one.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        super().__init__()
        self._send = send
        self._lock = anyio.Lock()

    async def send(self, item: SessionMessage, /) -> None:
        """Raises `Unencodable`, and `anyio.ClosedResourceError` or `BrokenResourceError`."""
        line = encode(from_session_message(item)) + b"\n"
        async with self._lock:
            if self._closed:
                raise anyio.ClosedResourceError
            await self._send(line)
