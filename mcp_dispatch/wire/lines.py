"""Splits chunks of bytes into lines, in linear time and with bounded memory."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import anyio

_HEAD_BYTES: Final = 200


@dataclass(frozen=True, slots=True)
class OverlongLine:
    """A skipped line over the limit: its length without the newline, and its first bytes."""

    length: int
    head: bytes


class BoundedLineReader:
    """Reads lines from `receive`, which returns b"" or raises `EndOfStream` at the end.

    A line ends in LF or CRLF; the last line may lack it. Blank lines are skipped. A line of more
    than `max_bytes` bytes is read to its end without being kept, and returned as `OverlongLine`.
    """

    def __init__(self, receive: Callable[[], Awaitable[bytes]], max_bytes: int) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._chunk = b""
        self._position = 0
        self._partial = bytearray()
        self._length = 0
        self._ended = False

    async def read_line(self) -> bytes | OverlongLine:
        """Return the next line without its line end. A cancelled call loses no bytes.

        Raises `anyio.EndOfStream`.
        """
        while True:
            line = self._take_line()
            if line is None:
                await self._receive_chunk()
            elif isinstance(line, OverlongLine) or not _is_blank(line):
                return line

    def _take_line(self) -> bytes | OverlongLine | None:
        """Return the next line, or None if its end has not been received."""
        end = self._chunk.find(b"\n", self._position)
        if end < 0:
            self._append_piece(self._chunk[self._position :])
            self._chunk, self._position = b"", 0
            return self._finish_line() if self._ended and self._length else None
        piece = self._chunk[self._position : end]
        self._position = end + 1
        if not self._length and len(piece) <= self._max_bytes:
            return piece.removesuffix(b"\r")
        self._append_piece(piece)
        return self._finish_line()

    def _append_piece(self, piece: bytes) -> None:
        self._length += len(piece)
        # One byte more than the limit is kept: the last byte may be the CR of a line end.
        if self._length <= self._max_bytes + 1:
            self._partial += piece
        elif len(self._partial) < _HEAD_BYTES:
            self._partial = (self._partial + piece[:_HEAD_BYTES])[:_HEAD_BYTES]
        else:
            del self._partial[_HEAD_BYTES:]

    def _finish_line(self) -> bytes | OverlongLine:
        partial, length = self._partial, self._length
        self._partial, self._length = bytearray(), 0
        if length <= self._max_bytes + 1:
            line = partial.removesuffix(b"\r")
            if len(line) <= self._max_bytes:
                return bytes(line)
        return OverlongLine(length, bytes(partial[:_HEAD_BYTES]))

    async def _receive_chunk(self) -> None:
        if self._ended:
            raise anyio.EndOfStream
        try:
            self._chunk = await self._receive()
        except anyio.EndOfStream:
            self._chunk = b""
        self._ended = not self._chunk


def _is_blank(line: bytes) -> bool:
    return not line or line.isspace()
