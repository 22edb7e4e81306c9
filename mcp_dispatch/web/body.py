"""Reads the body of a page: decompressed while it arrives, and bounded in size."""

from collections.abc import AsyncIterable, Iterator

from mcp_dispatch.web.errors import CannotFetch
from mcp_dispatch.wire.gunzip import ACCEPT_ENCODING, Gunzip, NotGzip


async def read_body(chunks: AsyncIterable[bytes], encoding: str, limit: int) -> bytes:
    """Return the whole body. Raises `CannotFetch`.

    Neither the bytes on the wire nor the decompressed ones may exceed `limit`.
    """
    gunzip = _create_gunzip(encoding)
    received = 0
    body = bytearray()
    async for chunk in chunks:
        received += len(chunk)
        for piece in _decode(chunk, gunzip):
            body += piece
            if len(body) > limit:
                break
        if received > limit or len(body) > limit:
            raise build_too_large_error(limit)
    if gunzip is not None and gunzip.is_truncated:
        raise CannotFetch("the page's gzip data ends too early; try again")
    return bytes(body)


def build_too_large_error(limit: int) -> CannotFetch:
    return CannotFetch(f"the page is larger than {limit:,} bytes, the most that is read")


def _create_gunzip(encoding: str) -> Gunzip | None:
    """Return None for a body that is not compressed."""
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return Gunzip(all_members=True)
        case other:
            raise CannotFetch(
                f"the page is encoded as {other[:100]!r}; only {ACCEPT_ENCODING} was asked for"
            )


def _decode(chunk: bytes, gunzip: Gunzip | None) -> Iterator[bytes]:
    if gunzip is None:
        yield chunk
        return
    try:
        yield from gunzip.feed(chunk)
    except NotGzip as error:
        raise CannotFetch("the page says that it is gzip data and is not") from error
