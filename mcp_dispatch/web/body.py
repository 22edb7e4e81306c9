"""The body of an answer: decompressed while it arrives, and never larger than it may be."""

import zlib
from collections.abc import AsyncIterable, Iterator

from mcp_dispatch.web.errors import CannotFetch

ACCEPT_ENCODING = "gzip"
"""The one encoding whose output `zlib` hands out in pieces as small as we ask for."""

_GZIP_WBITS = 16 + zlib.MAX_WBITS
_GZIP_MAGIC = b"\x1f\x8b"


async def read_body(chunks: AsyncIterable[bytes], encoding: str, limit: int) -> bytes:
    """All of it, at most `limit` bytes, on the wire as well. Raises `CannotFetch`."""
    decoder = _create_decoder(encoding, limit)
    received = 0
    body = bytearray()
    async for chunk in chunks:
        received += len(chunk)
        for piece in decoder.decode(chunk):
            body += piece
        if received > limit or len(body) > limit:
            raise build_too_large_error(limit)
    decoder.finish()
    return bytes(body)


def build_too_large_error(limit: int) -> CannotFetch:
    return CannotFetch(f"the page is larger than {limit:,} bytes, the most that is read")


class _PlainDecoder:
    def decode(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk

    def finish(self) -> None:
        """Plain data is whole when the message is, which the protocol knows."""


class _GzipDecoder:
    """Never more than one byte over the limit, whatever a small input may grow into."""

    def __init__(self, limit: int) -> None:
        self._remaining = limit + 1
        self._member = zlib.decompressobj(_GZIP_WBITS)
        self._is_started = False

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        self._is_started = True
        rest = chunk
        while rest and self._remaining:
            try:
                piece = self._member.decompress(rest, self._remaining)
            except zlib.error as error:
                raise CannotFetch("the page says that it is gzip data and is not") from error
            self._remaining -= len(piece)
            yield piece
            rest = self._member.unconsumed_tail or self._start_next_member()

    def _start_next_member(self) -> bytes:
        """What follows a member is another one, or padding that counts for nothing."""
        rest = self._member.unused_data
        if not (self._member.eof and rest.startswith(_GZIP_MAGIC)):
            return b""
        self._member = zlib.decompressobj(_GZIP_WBITS)
        return rest

    def finish(self) -> None:
        if self._is_started and not self._member.eof:
            raise CannotFetch("the page's gzip data ends too early; try again")


def _create_decoder(encoding: str, limit: int) -> _PlainDecoder | _GzipDecoder:
    match encoding.strip().lower():
        case "" | "identity":
            return _PlainDecoder()
        case "gzip" | "x-gzip":
            return _GzipDecoder(limit)
        case other:
            raise CannotFetch(
                f"the page is encoded as {other[:100]!r}; only {ACCEPT_ENCODING} was asked for"
            )
