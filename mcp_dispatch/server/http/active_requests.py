"""The HTTP requests that are being served, and how they end when the server stops."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio
from starlette.types import Message, Receive, Send

from mcp_dispatch.concurrency.change_signal import ChangeSignal

CANCEL_GRACE_SECONDS: Final = 1.0
"""How long a cancelled call may take to send its error response."""


@dataclass(eq=False, slots=True)
class ActiveRequest:
    """One request and its response.

    `ended` is set when the client has disconnected or the server stops: nobody waits any more
    for what the request started.
    """

    is_stream: bool
    ended: anyio.Event = field(default_factory=anyio.Event)
    _cancel_scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _response_started: bool = False
    _response_complete: bool = False

    def watch_receive(self, receive: Receive) -> Receive:
        """Return a `receive` that sets `ended` when the client disconnects."""

        async def receive_and_check() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.ended.set()
            return message

        return receive_and_check

    def track_send(self, send: Send) -> Send:
        """Return a `send` that records how much of the response has been sent."""

        async def send_and_record(message: Message) -> None:
            await send(message)
            self._response_started = True
            self._response_complete = message["type"] == "http.response.body" and not message.get(
                "more_body"
            )

        return send_and_record

    def end(self) -> None:
        self.ended.set()
        self._cancel_scope.cancel()

    async def _finish_response(self, send: Send) -> None:
        if self._response_complete:
            return
        if not self._response_started:
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    @asynccontextmanager
    async def guard_response(self, send: Send) -> AsyncGenerator[None, None]:
        """Let `end` cancel the block, and complete the response in that case."""
        try:
            with self._cancel_scope:
                yield
            if self._cancel_scope.cancelled_caught:
                await self._finish_response(send)
        finally:
            self.ended.set()


class ActiveRequests:
    """All requests that are being served."""

    def __init__(self) -> None:
        self._requests: set[ActiveRequest] = set()
        self._request_removed = ChangeSignal()
        self.closing = False
        """Whether new requests are rejected."""

    @asynccontextmanager
    async def track(self, *, is_stream: bool) -> AsyncGenerator[ActiveRequest, None]:
        """Keep a request for the duration of the block.

        `is_stream`: the response has no end of its own, so a shutdown does not wait for it.
        """
        request = ActiveRequest(is_stream)
        self._requests.add(request)
        try:
            yield request
        finally:
            self._requests.discard(request)
            self._request_removed.notify()

    async def close(self, grace: float) -> None:
        """End streams at once; let calls finish for `grace` seconds and then cancel them."""
        self.closing = True
        _end_all(request for request in self._requests if request.is_stream)
        with anyio.move_on_after(grace):
            await self._wait_until_empty()
        for request in self._requests:
            request.ended.set()
        with anyio.move_on_after(CANCEL_GRACE_SECONDS):
            await self._wait_until_empty()
        _end_all(self._requests)

    async def _wait_until_empty(self) -> None:
        await self._request_removed.wait_until(lambda: not self._requests)


def _end_all(requests: Iterable[ActiveRequest]) -> None:
    for request in list(requests):
        request.end()
