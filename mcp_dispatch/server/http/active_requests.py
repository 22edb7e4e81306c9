"""The requests that are being served, and how they end when the server does."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from starlette.types import Message, Receive, Send

STOPPING_SECONDS = 1.0
"""How long a call that has been told to stop may take to answer that it was."""


@dataclass(eq=False, slots=True)
class Visit:
    """One request and its answer. `over` is set when the client has left or the server ends: what
    the request started has no reason to go on."""

    is_stream: bool
    over: anyio.Event = field(default_factory=anyio.Event)
    _here: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _begun: bool = False
    _done: bool = False

    def watched(self, receive: Receive) -> Receive:
        """Notices that the client has left."""

        async def watching() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.over.set()
            return message

        return watching

    def noted(self, send: Send) -> Send:
        """Knows how much of the answer is out."""

        async def noting(message: Message) -> None:
            await send(message)
            self._begun = True
            self._done = message["type"] == "http.response.body" and not message.get("more_body")

        return noting

    def end(self) -> None:
        self.over.set()
        self._here.cancel()

    async def _conclude(self, send: Send) -> None:
        if self._done:
            return
        if not self._begun:
            headers = [(b"content-length", b"0"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    @asynccontextmanager
    async def staying(self, send: Send) -> AsyncGenerator[None, None]:
        """Around the answer: cut short by `end`, which still leaves a complete response."""
        try:
            with self._here:
                yield
            if self._here.cancelled_caught:
                await self._conclude(send)
        finally:
            self.over.set()


class Visits:
    """Everyone who is being served."""

    def __init__(self) -> None:
        self._open: set[Visit] = set()
        self._left = anyio.Event()
        self.closing = False
        """Set when nobody is let in any more."""

    @asynccontextmanager
    async def one(self, *, is_stream: bool) -> AsyncGenerator[Visit, None]:
        """`is_stream`: it waits for news without an end of its own, so nobody waits for it."""
        visit = Visit(is_stream)
        self._open.add(visit)
        try:
            yield visit
        finally:
            self._open.discard(visit)
            left, self._left = self._left, anyio.Event()
            left.set()

    async def close(self, grace: float) -> None:
        """Streams end at once; calls may finish for `grace` seconds, then they are cancelled."""
        self.closing = True
        _end(visit for visit in self._open if visit.is_stream)
        with anyio.move_on_after(grace):
            await self._all_left()
        for visit in self._open:
            visit.over.set()
        with anyio.move_on_after(STOPPING_SECONDS):
            await self._all_left()
        _end(self._open)

    async def _all_left(self) -> None:
        while self._open:
            await self._left.wait()


def _end(visits: Iterable[Visit]) -> None:
    for visit in list(visits):
        visit.end()
