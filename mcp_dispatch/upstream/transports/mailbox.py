"""What a server sent over HTTP, whichever answer it came in, as the one stream that the SDK reads."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import RequestId

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.codec import Undecodable, decode
from mcp_dispatch.wire.jsonrpc import envelope_problem, error_message, to_session_message
from mcp_dispatch.wire.sdk_streams import OnNoise, SessionReader, SessionWriter

_MOST_WAITING: Final = 16
_SAMPLE: Final = 200
# The SDK needs a code for what is told it in place of an answer; who asked looks at the loss.
_LOST: Final = -32000


class Inbox(SessionReader):
    """A message that is none is reported and skipped. Whoever puts waits for the reader."""

    def __init__(self, on_noise: OnNoise) -> None:
        super().__init__()
        self._on_noise = on_noise
        self._waiting: deque[SessionMessage] = deque()
        self._filled = anyio.Event()
        self._emptied = anyio.Event()

    async def receive(self) -> SessionMessage | Exception:
        while not self._waiting:
            if self._closed:
                raise anyio.ClosedResourceError
            self._filled = anyio.Event()
            await self._filled.wait()
        self._emptied.set()
        return self._waiting.popleft()

    async def aclose(self) -> None:
        await super().aclose()
        self._filled.set()
        self._emptied.set()

    async def put(self, message: JsonObject, about: RequestId | None = None) -> None:
        """`about` is the request of ours in whose answer the message came."""
        await self._put(
            to_session_message(message, ServerMessageMetadata(related_request_id=about))
        )

    async def lose(self, id: RequestId) -> None:
        """Wakes whoever waits for the answer to this request."""
        await self._put(to_session_message(error_message(id, _LOST, "no answer")))

    def messages(
        self, text: bytes, about: RequestId | None = None, *, answers: bool = True
    ) -> Iterator[JsonObject]:
        """Those of one body or event.

        With `about`, an answer to any other request is none here; without `answers`, every one is.
        A batch, which one version allowed, is taken apart. A broken answer becomes an error; an
        error that names no request is one to `about`.
        """
        try:
            value = decode(text)
        except Undecodable:
            self._on_noise("undecodable", text[:_SAMPLE])
            return
        for each in value if isinstance(value, list) else [value]:
            message = _message(each, about, answers)
            if message is None:
                self._on_noise("envelope", text[:_SAMPLE])
            else:
                yield message

    async def _put(self, message: SessionMessage) -> None:
        """What comes when nobody reads any more is dropped: the connection is being left."""
        while len(self._waiting) >= _MOST_WAITING and not self._closed:
            self._emptied = anyio.Event()
            await self._emptied.wait()
        if not self._closed:
            self._waiting.append(message)
            self._filled.set()


class Outbox(SessionWriter):
    """Hands each message over, one by one or side by side as the transport likes."""

    def __init__(self, take: Callable[[SessionMessage], Awaitable[None]]) -> None:
        super().__init__()
        self._take = take

    async def send(self, item: SessionMessage, /) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        await self._take(item)


def is_answer(message: JsonObject) -> bool:
    return message.get("method") is None


def _message(value: Json, about: RequestId | None, answers: bool) -> JsonObject | None:
    problem = envelope_problem(value)
    if problem is not None:
        id = problem.awaited
        awaited = answers and id is not None and (about is None or _same(id, about))
        return error_message(id, problem.code, problem.message) if awaited else None
    assert isinstance(value, dict)
    if not is_answer(value):
        return value
    if about is not None and value.get("id") is None:
        return {**value, "id": about}
    return value if answers and (about is None or _same(value.get("id"), about)) else None


def _same(id: Json, about: RequestId) -> bool:
    # "1" is not 1, and True is not 1 either.
    return type(id) is type(about) and id == about
