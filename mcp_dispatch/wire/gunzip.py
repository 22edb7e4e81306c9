"""Decompresses gzip data in pieces of bounded size while it arrives."""

import zlib
from collections.abc import Iterator
from typing import Final

ACCEPT_ENCODING: Final = "gzip"
"""The only content encoding that is requested: `zlib` can bound the size of each output piece."""

_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_GZIP_MAGIC: Final = b"\x1f\x8b"
_PIECE_BYTES: Final = 256 * 1024


class NotGzip(Exception):
    """The data is not in gzip format."""


class Gunzip:
    """Decodes one gzip member, or all members that follow each other if `all_members` is set.

    Data after the last member is ignored.
    """

    def __init__(self, *, all_members: bool = False) -> None:
        self._all_members = all_members
        self._member = zlib.decompressobj(_GZIP_WBITS)
        self._is_started = False

    @property
    def is_truncated(self) -> bool:
        """Whether the data that was fed so far ends inside a member."""
        return self._is_started and not self._member.eof

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield decompressed pieces, whatever size a small chunk grows to. Raises `NotGzip`."""
        self._is_started = True
        rest = chunk
        while rest and (self._all_members or not self._member.eof):
            try:
                piece = self._member.decompress(rest, _PIECE_BYTES)
            except zlib.error as error:
                raise NotGzip from error
            if piece:
                yield piece
            rest = self._member.unconsumed_tail or self._start_next_member()

    def _start_next_member(self) -> bytes:
        """Return the data of the next member, if another member follows."""
        rest = self._member.unused_data
        if not (self._all_members and self._member.eof and rest.startswith(_GZIP_MAGIC)):
            return b""
        self._member = zlib.decompressobj(_GZIP_WBITS)
        return rest
