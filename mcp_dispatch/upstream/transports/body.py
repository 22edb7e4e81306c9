"""Reads the body of an HTTP response: decompressed while it arrives, and bounded in size."""

from collections.abc import AsyncIterable, AsyncIterator

from mcp_dispatch.upstream.errors import RequestLost
from mcp_dispatch.wire.gunzip import ACCEPT_ENCODING, Gunzip, NotGzip


async def unpack_body(chunks: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    """Yield the plain bytes in pieces of bounded size. Raises `RequestLost`."""
    match encoding.strip().lower():
        case "" | "identity":
            async for chunk in chunks:
                yield chunk
        case "gzip" | "x-gzip":
            gunzip = Gunzip()
            async for chunk in chunks:
                try:
                    for piece in gunzip.feed(chunk):
                        yield piece
                except NotGzip as error:
                    raise RequestLost("sent as gzip what is none") from error
        case _:
            raise RequestLost(f"packed its answer otherwise than in {ACCEPT_ENCODING}")


async def read_body(chunks: AsyncIterable[bytes], limit: int) -> bytes:
    """Return the whole body. Raises `RequestLost` if it is larger than `limit` bytes."""
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
