"""Request bodies: read whole, each bounded, all of them together bounded, none awaited forever."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from starlette.types import Message, Receive

from mcp_dispatch.model.errors import MCPDispatchError

CHUNK_SECONDS = 30.0
_AT_ONCE = 2
"""How many bodies of the largest size may be in work at once."""


class NotTaken(MCPDispatchError):
    """The body was not read to its end: the HTTP status, and one line for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Intake:
    """Counts the bytes of every request in work; they are let go when its answer is given."""

    def __init__(self, largest: int, *, chunk_seconds: float = CHUNK_SECONDS) -> None:
        self._largest = largest
        self._together = largest * _AT_ONCE
        self._chunk_seconds = chunk_seconds
        self._held = 0

    @asynccontextmanager
    async def body(self, declared: int | None, receive: Receive) -> AsyncGenerator[bytes, None]:
        """The whole body. `declared` is its Content-Length. Raises `NotTaken`."""
        if declared is not None and declared > self._largest:
            raise self._too_large()
        taken = _Taken()
        try:
            while await self._take_chunk(taken, receive):
                pass
            yield taken.whole()
        finally:
            self._held -= taken.size

    async def _take_chunk(self, taken: "_Taken", receive: Receive) -> bool:
        """Whether there is more to come."""
        message = await self._next(receive)
        chunk: bytes = message.get("body", b"")
        if taken.size + len(chunk) > self._largest:
            raise self._too_large()
        if self._held + len(chunk) > self._together:
            raise NotTaken(503, "too many large requests at once; try again")
        taken.add(chunk)
        self._held += len(chunk)
        return bool(message.get("more_body", False))

    async def _next(self, receive: Receive) -> Message:
        try:
            with anyio.fail_after(self._chunk_seconds):
                message = await receive()
        except TimeoutError as late:
            raise NotTaken(408, "the body of the request did not arrive in time") from late
        if message["type"] != "http.request":
            raise NotTaken(400, "the client left before the body was complete")
        return message

    def _too_large(self) -> NotTaken:
        return NotTaken(413, f"the body of the request is over {self._largest} bytes")


class _Taken:
    """What has arrived. The size stays known when the bytes have been handed on."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.size = 0

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self.size += len(chunk)

    def whole(self) -> bytes:
        chunks, self._chunks = self._chunks, []
        return b"".join(chunks)
