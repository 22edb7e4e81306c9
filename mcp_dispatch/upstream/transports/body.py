"""The body of an answer: unpacked in small pieces while it arrives, and never larger than it may be."""

import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Final

from mcp_dispatch.upstream.errors import RequestLost

ACCEPT_ENCODING: Final = "gzip"
"""The one encoding whose output `zlib` hands out in pieces as small as we ask for."""

_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_CHUNK_BYTES: Final = 256 * 1024


async def unpack_body(chunks: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The plain bytes, whatever a small chunk may grow into. Raises `RequestLost`."""
    match encoding.strip().lower():
        case "" | "identity":
            async for chunk in chunks:
                yield chunk
        case "gzip" | "x-gzip":
            gunzip = _Gunzip()
            async for chunk in chunks:
                for piece in gunzip.feed(chunk):
                    yield piece
        case _:
            raise RequestLost(f"packed its answer otherwise than in {ACCEPT_ENCODING}")


async def read_body(chunks: AsyncIterable[bytes], limit: int) -> bytes:
    """All of it. Raises `RequestLost` where it is more than `limit` bytes."""
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise build_too_large_error(limit)
    return bytes(body)


def build_too_large_error(limit: int) -> RequestLost:
    return RequestLost(
        f"sent an answer of more than {limit:,} bytes, the most that is taken "
        '("dispatch.upstreams.maxMessageBytes" in the settings)'
    )


class _Gunzip:
    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_WBITS)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        rest = chunk
        while rest and not self._member.eof:
            try:
                piece = self._member.decompress(rest, _CHUNK_BYTES)
            except zlib.error as error:
                raise RequestLost("sent as gzip what is none") from error
            if piece:
                yield piece
            rest = self._member.unconsumed_tail
