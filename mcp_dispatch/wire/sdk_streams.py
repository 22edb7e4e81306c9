"""The SDK's read and write streams over lines of bytes, for the pipes of an upstream."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from mcp_dispatch.wire.codec import Undecodable, decode, encode
from mcp_dispatch.wire.jsonrpc import (
    EnvelopeProblem,
    build_error_message,
    check_envelope,
    from_session_message,
    to_session_message,
)
from mcp_dispatch.wire.lines import BoundedLineReader, OverlongLine
from mcp_dispatch.wire.sdk import SessionMessage, SessionReader, SessionWriter

_SAMPLE_BYTES: Final = 200

OnInvalidLine = Callable[[str, bytes], None]
"""Is called with the kind (`overlong`, `undecodable`, `envelope`) and the first bytes of the line."""


class MessageReader(SessionReader):
    """Reads the messages of an upstream. An invalid line is counted, reported and skipped.

    An invalid response fails the request that it answers, which would wait in vain otherwise.
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
    """Return an error response that replaces an invalid one, or None if no request waits for it."""
    if problem is None or problem.response_id is None:
        return None
    return to_session_message(
        build_error_message(problem.response_id, problem.code, problem.message)
    )


class MessageWriter(SessionWriter):
    """Writes messages to an upstream, one at a time.

    `send` is called with whole lines. When it is cancelled half-way, it must write the rest of
    that line before the next one, as `FdWriter` and anyio's process streams do: half a line
    would corrupt every later message.
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
