"""Server-sent events out of bytes, in time linear in the bytes and memory bounded by the limit."""

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from mcp_dispatch.upstream.transports.body import too_large

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
# What can be sent back in a header.
_HEADER_VALUE: Final = re.compile(r"[!-~]([ -~]{0,998}[!-~])?")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LONGEST_DECIMAL: Final = 9
_LONGEST_RETRY: Final = 30.0


@dataclass(frozen=True, slots=True)
class Event:
    """`id` and `retry` (milliseconds) are None where the event says nothing about them."""

    kind: str
    data: bytes
    id: str | None = None
    retry: int | None = None


@dataclass(slots=True)
class Bookmark:
    """Where in a stream the last event stood, for a server that can go on from there."""

    id: str | None = None
    retry: float = 1.0
    read: int = 0

    def note(self, event: Event) -> None:
        self.read += 1
        if event.id is not None:
            self.id = event.id if _HEADER_VALUE.fullmatch(event.id) else None
        if event.retry is not None:
            self.retry = min(event.retry / 1000, _LONGEST_RETRY)


class EventParser:
    """Fed with chunks as they come. `limit` bounds one event, also one that never ends."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line = bytearray()
        self._after_cr = False
        self._begun = False
        self._clear()

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Raises `RequestLost` where an event is too large."""
        for line in self._lines(chunk):
            event = self._take(line)
            if event is not None:
                yield event

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        start = 1 if self._after_cr and chunk.startswith(b"\n") else 0
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        for end, after in _line_ends(chunk, start):
            piece = chunk[start:end]
            start = after
            if self._line:
                self._hold(piece)
                piece, self._line = bytes(self._line), bytearray()
            yield piece
        self._hold(chunk[start:])

    def _hold(self, piece: bytes) -> None:
        self._line += piece
        self._bound()

    def _bound(self) -> None:
        # The line may hold the name of its field beside the data that is counted.
        if self._size + len(self._line) > self._limit + 64:
            raise too_large(self._limit)

    def _take(self, line: bytes) -> Event | None:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._finish()
        name, _, value = line.partition(b":")
        self._field(name, value.removeprefix(b" "))
        return None

    def _field(self, name: bytes, value: bytes) -> None:
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value) + 1
                self._bound()
            case b"event":
                self._kind = value.decode("utf-8", "replace")[:100]
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit() and len(value) <= _LONGEST_DECIMAL:
                self._retry = int(value)
            case _:
                return  # a comment, or a field of the future

    def _finish(self) -> Event | None:
        said = self._data or self._id is not None or self._retry is not None
        event = Event(self._kind or "message", b"\n".join(self._data), self._id, self._retry)
        self._clear()
        return event if said else None

    def _clear(self) -> None:
        self._data: list[bytes] = []
        self._size = 0
        self._kind = ""
        self._id: str | None = None
        self._retry: int | None = None


def _line_ends(chunk: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Where each line of the chunk ends and the next one begins."""
    if b"\r" in chunk:
        yield from (found.span() for found in _LINE_END.finditer(chunk, start))
        return
    # Many times faster than the pattern, and most of a large event has no end of a line at all.
    while (end := chunk.find(b"\n", start)) >= 0:
        start = end + 1
        yield end, start


async def events(chunks: AsyncIterable[bytes], limit: int) -> AsyncIterator[Event]:
    """The events of a body; one that its end cuts short is none. Raises `RequestLost`."""
    parser = EventParser(limit)
    async for chunk in chunks:
        for event in parser.feed(chunk):
            yield event
