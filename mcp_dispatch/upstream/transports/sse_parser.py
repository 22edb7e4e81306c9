"""Parses server-sent events in linear time and bounded memory."""

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from mcp_dispatch.upstream.transports.body import build_too_large_error

_LINE_END_PATTERN: Final = re.compile(rb"\r\n|\n|\r")
# Event ids that can be sent back in a header.
_HEADER_VALUE_PATTERN: Final = re.compile(r"[!-~]([ -~]{0,998}[!-~])?")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS: Final = 9
_MAX_RETRY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event; `id` and `retry` (milliseconds) are None if the event does not contain them."""

    kind: str
    data: bytes
    id: str | None = None
    retry: int | None = None


@dataclass(slots=True)
class StreamPosition:
    """The last event of a stream, from which a server may resume it; `retry` is in seconds."""

    id: str | None = None
    retry: float = 1.0
    events_read: int = 0

    def record_event(self, event: SseEvent) -> None:
        self.events_read += 1
        if event.id is not None:
            self.id = event.id if _HEADER_VALUE_PATTERN.fullmatch(event.id) else None
        if event.retry is not None:
            self.retry = min(event.retry / 1000, _MAX_RETRY_SECONDS)


class SseParser:
    """Parses chunks as they arrive. `limit` bounds one event, even if it never ends."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._after_cr = False
        self._started = False
        self._clear_event()

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """Yield complete events. Raises `RequestLost` if an event is too large."""
        for line in self._split_lines(chunk):
            event = self._parse_line(line)
            if event is not None:
                yield event

    def _split_lines(self, chunk: bytes) -> Iterator[bytes]:
        start = 1 if self._after_cr and chunk.startswith(b"\n") else 0
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        for end, after in _find_line_ends(chunk, start):
            piece = chunk[start:end]
            start = after
            if self._line:
                self._append(piece)
                piece, self._line = bytes(self._line), bytearray()
            yield piece
        self._append(chunk[start:])

    def _append(self, piece: bytes) -> None:
        self._line += piece
        self._check_size()

    def _check_size(self) -> None:
        # The line may contain the name of its field besides the data that is counted.
        if self._size + len(self._line) > self._limit + 64:
            raise build_too_large_error(self._limit)

    def _parse_line(self, line: bytes) -> SseEvent | None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._finish_event()
        name, _, value = line.partition(b":")
        self._set_field(name, value.removeprefix(b" "))
        return None

    def _set_field(self, name: bytes, value: bytes) -> None:
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value) + 1
                self._check_size()
            case b"event":
                self._kind = value.decode("utf-8", "replace")[:100]
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
                self._retry = int(value)
            case _:
                return  # a comment or an unknown field

    def _finish_event(self) -> SseEvent | None:
        said = self._data or self._id is not None or self._retry is not None
        event = SseEvent(self._kind or "message", b"\n".join(self._data), self._id, self._retry)
        self._clear_event()
        return event if said else None

    def _clear_event(self) -> None:
        self._data: list[bytes] = []
        self._size = 0
        self._kind = ""
        self._id: str | None = None
        self._retry: int | None = None


def _find_line_ends(chunk: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Yield where each line of the chunk ends and where the next one begins."""
    if b"\r" in chunk:
        yield from (found.span() for found in _LINE_END_PATTERN.finditer(chunk, start))
        return
    # Many times faster than the pattern; most chunks of a large event contain no line end.
    while (end := chunk.find(b"\n", start)) >= 0:
        start = end + 1
        yield end, start


async def parse_events(chunks: AsyncIterable[bytes], limit: int) -> AsyncIterator[SseEvent]:
    """Yield the events of a body; an incomplete last one is dropped. Raises `RequestLost`."""
    parser = SseParser(limit)
    async for chunk in chunks:
        for event in parser.feed(chunk):
            yield event
