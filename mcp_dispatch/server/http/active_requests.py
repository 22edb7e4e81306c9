"""The requests that are being served, and how they end when the server does."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from starlette.types import Message, Receive, Send

CANCEL_GRACE_SECONDS = 1.0
"""How long a call that has been told to stop may take to answer that it was."""


@dataclass(eq=False, slots=True)
class ActiveRequest:
    """One request and its answer. `over` is set when the client has left or the server ends: what
    the request started has no reason to go on."""

    is_stream: bool
    ended: anyio.Event = field(default_factory=anyio.Event)
    _cancel_scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _response_started: bool = False
    _response_complete: bool = False

    def watch_receive(self, receive: Receive) -> Receive:
        """Notices that the client has left."""

        async def receive_and_check() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.ended.set()
            return message

        return receive_and_check

    def track_send(self, send: Send) -> Send:
        """Knows how much of the answer is out."""

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
        """Around the answer: cut short by `end`, which still leaves a complete response."""
        try:
            with self._cancel_scope:
                yield
            if self._cancel_scope.cancelled_caught:
                await self._finish_response(send)
        finally:
            self.ended.set()


class ActiveRequests:
    """Everyone who is being served."""

    def __init__(self) -> None:
        self._requests: set[ActiveRequest] = set()
        self._request_removed = anyio.Event()
        self.closing = False
        """Set when nobody is let in any more."""

    @asynccontextmanager
    async def track(self, *, is_stream: bool) -> AsyncGenerator[ActiveRequest, None]:
        """`is_stream`: it waits for news without an end of its own, so nobody waits for it."""
        visit = ActiveRequest(is_stream)
        self._requests.add(visit)
        try:
            yield visit
        finally:
            self._requests.discard(visit)
            left, self._request_removed = self._request_removed, anyio.Event()
            left.set()

    async def close(self, grace: float) -> None:
        """Streams end at once; calls may finish for `grace` seconds, then they are cancelled."""
        self.closing = True
        _end_all(visit for visit in self._requests if visit.is_stream)
        with anyio.move_on_after(grace):
            await self._wait_until_empty()
        for visit in self._requests:
            visit.ended.set()
        with anyio.move_on_after(CANCEL_GRACE_SECONDS):
            await self._wait_until_empty()
        _end_all(self._requests)

    async def _wait_until_empty(self) -> None:
        while self._requests:
            await self._request_removed.wait()


def _end_all(requests: Iterable[ActiveRequest]) -> None:
    for visit in list(requests):
        visit.end()
