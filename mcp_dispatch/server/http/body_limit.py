"""Reads request bodies, with limits on the size of each, on all together, and on the time."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from starlette.types import Message, Receive

from mcp_dispatch.model.errors import MCPDispatchError

CHUNK_TIMEOUT_SECONDS: Final = 30.0
_MAX_CONCURRENT_BODIES: Final = 2
"""How many bodies of the maximum size may be held at the same time."""


class BodyRejected(MCPDispatchError):
    """The body was not read completely. `status` is the HTTP status of the error response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class BodyLimiter:
    """Counts the bytes of all requests from their arrival until they are answered."""

    def __init__(self, max_bytes: int, *, chunk_timeout: float = CHUNK_TIMEOUT_SECONDS) -> None:
        self._max_bytes = max_bytes
        self._max_total_bytes = max_bytes * _MAX_CONCURRENT_BODIES
        self._chunk_timeout = chunk_timeout
        self._total_bytes = 0

    @asynccontextmanager
    async def read_body(
        self, content_length: int | None, receive: Receive
    ) -> AsyncGenerator[bytes, None]:
        """Yield the whole body, and count its bytes until the block ends.

        Raises `BodyRejected`.
        """
        if content_length is not None and content_length > self._max_bytes:
            raise self._build_too_large_error()
        buffer = _BodyBuffer()
        try:
            while await self._read_chunk(buffer, receive):
                pass
            yield buffer.pop_bytes()
        finally:
            self._total_bytes -= buffer.size

    async def _read_chunk(self, buffer: "_BodyBuffer", receive: Receive) -> bool:
        """Read one chunk and return whether more chunks follow."""
        message = await self._receive_chunk(receive)
        chunk: bytes = message.get("body", b"")
        if buffer.size + len(chunk) > self._max_bytes:
            raise self._build_too_large_error()
        if self._total_bytes + len(chunk) > self._max_total_bytes:
            raise BodyRejected(503, "too many large requests at once; try again")
        buffer.add(chunk)
        self._total_bytes += len(chunk)
        return bool(message.get("more_body", False))

    async def _receive_chunk(self, receive: Receive) -> Message:
        try:
            with anyio.fail_after(self._chunk_timeout):
                message = await receive()
        except TimeoutError as error:
            raise BodyRejected(408, "the body of the request did not arrive in time") from error
        if message["type"] != "http.request":
            raise BodyRejected(400, "the client left before the body was complete")
        return message

    def _build_too_large_error(self) -> BodyRejected:
        return BodyRejected(413, f"the body of the request is over {self._max_bytes} bytes")


class _BodyBuffer:
    """The received chunks. `size` stays known after `pop_bytes` has released them."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.size = 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self.size += len(chunk)

    def pop_bytes(self) -> bytes:
        chunks, self._chunks = self._chunks, []
        return b"".join(chunks)
