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
    envelope_problem,
    error_message,
    from_session_message,
    to_session_message,
)
from mcp_dispatch.wire.lines import Lines, Overlong

_SAMPLE = 200

OnNoise = Callable[[str, bytes], None]
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

    def __init__(self, lines: Lines, on_noise: OnNoise) -> None:
        super().__init__()
        self._lines = lines
        self._on_noise = on_noise
        self.noise: Counter[str] = Counter()

    async def receive(self) -> SessionMessage | Exception:
        while not self._closed:
            try:
                line = await self._lines.next()
            except anyio.BrokenResourceError as error:
                raise anyio.EndOfStream from error
            message = self._read(line)
            if message is not None:
                return message
        raise anyio.ClosedResourceError

    def _read(self, line: bytes | Overlong) -> SessionMessage | None:
        if isinstance(line, Overlong):
            return self._note("overlong", line.head)
        try:
            message = decode(line)
        except Undecodable:
            return self._note("undecodable", line)
        problem = envelope_problem(message)
        if problem is None and isinstance(message, dict):
            return to_session_message(message)
        self._note("envelope", line)
        return failed_response(problem)

    def _note(self, kind: str, line: bytes) -> None:
        self.noise[kind] += 1
        self._on_noise(kind, line[:_SAMPLE])


def failed_response(problem: EnvelopeProblem | None) -> SessionMessage | None:
    """What the SDK is told in place of a broken response, so that its waiter learns of it."""
    if problem is None or problem.awaited is None:
        return None
    return to_session_message(error_message(problem.awaited, problem.code, problem.message))


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
