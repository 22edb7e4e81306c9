"""Request bodies: read whole, each bounded, all of them together bounded, none awaited forever."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from starlette.types import Message, Receive

from mcp_dispatch.model.errors import MCPDispatchError

CHUNK_TIMEOUT_SECONDS = 30.0
_MAX_CONCURRENT_BODIES = 2
"""How many bodies of the largest size may be in work at once."""


class BodyRejected(MCPDispatchError):
    """The body was not read to its end: the HTTP status, and one line for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class BodyLimiter:
    """Counts the bytes of every request in work; they are let go when its answer is given."""

    def __init__(self, max_bytes: int, *, chunk_timeout: float = CHUNK_TIMEOUT_SECONDS) -> None:
        self._max_bytes = max_bytes
        self._max_total_bytes = max_bytes * _MAX_CONCURRENT_BODIES
        self._chunk_timeout = chunk_timeout
        self._total_bytes = 0

    @asynccontextmanager
    async def read_body(
        self, content_length: int | None, receive: Receive
    ) -> AsyncGenerator[bytes, None]:
        """The whole body. `declared` is its Content-Length. Raises `NotTaken`."""
        if content_length is not None and content_length > self._max_bytes:
            raise self._build_too_large_error()
        taken = _BodyBuffer()
        try:
            while await self._read_chunk(taken, receive):
                pass
            yield taken.pop_bytes()
        finally:
            self._total_bytes -= taken.size

    async def _read_chunk(self, buffer: "_BodyBuffer", receive: Receive) -> bool:
        """Whether there is more to come."""
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
        except TimeoutError as late:
            raise BodyRejected(408, "the body of the request did not arrive in time") from late
        if message["type"] != "http.request":
            raise BodyRejected(400, "the client left before the body was complete")
        return message

    def _build_too_large_error(self) -> BodyRejected:
        return BodyRejected(413, f"the body of the request is over {self._max_bytes} bytes")


class _BodyBuffer:
    """What has arrived. The size stays known when the bytes have been handed on."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.size = 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self.size += len(chunk)

    def pop_bytes(self) -> bytes:
        chunks, self._chunks = self._chunks, []
        return b"".join(chunks)
