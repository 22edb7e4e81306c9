"""Combines the messages of all HTTP responses into the one stream that the SDK reads."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import anyio
from mcp_types import RequestId

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.codec import Undecodable, decode
from mcp_dispatch.wire.jsonrpc import build_error_message, check_envelope, to_session_message
from mcp_dispatch.wire.sdk import ServerMessageMetadata, SessionMessage
from mcp_dispatch.wire.sdk_streams import OnInvalidLine, SessionReader, SessionWriter

_MAX_QUEUED: Final = 16
_SAMPLE_BYTES: Final = 200
# The code of the error that wakes a request without answer; the connection replaces the error.
_LOST_CODE: Final = -32000


class Inbox(SessionReader):
    """A bounded queue of messages: `put` waits for the reader. Invalid messages are skipped."""

    def __init__(self, on_invalid_line: OnInvalidLine) -> None:
        super().__init__()
        self._on_invalid_line = on_invalid_line
        self._queue: deque[SessionMessage] = deque()
        self._filled = anyio.Event()
        self._emptied = anyio.Event()

    async def receive(self) -> SessionMessage | Exception:
        while not self._queue:
            if self._closed:
                raise anyio.ClosedResourceError
            self._filled = anyio.Event()
            await self._filled.wait()
        self._emptied.set()
        return self._queue.popleft()

    async def aclose(self) -> None:
        await super().aclose()
        self._filled.set()
        self._emptied.set()

    async def put(self, message: JsonObject, related_id: RequestId | None = None) -> None:
        """Add a message; `related_id` is the id of our request whose response contained it."""
        await self._put(
            to_session_message(message, ServerMessageMetadata(related_request_id=related_id))
        )

    async def put_lost_error(self, id: RequestId) -> None:
        """Wake the task that waits for the answer to this request."""
        await self._put(to_session_message(build_error_message(id, _LOST_CODE, "no answer")))

    def parse_messages(
        self, text: bytes, related_id: RequestId | None = None, *, answers: bool = True
    ) -> Iterator[JsonObject]:
        """Yield the messages of one body or event.

        With `related_id`, answers to other requests are invalid; without `answers`, all answers
        are. A batch, which one protocol version allowed, is split. A malformed answer becomes an
        error; an error without id is an answer to `related_id`.
        """
        try:
            value = decode(text)
        except Undecodable:
            self._on_invalid_line("undecodable", text[:_SAMPLE_BYTES])
            return
        for each in value if isinstance(value, list) else [value]:
            message = _parse_message(each, related_id, answers)
            if message is None:
                self._on_invalid_line("envelope", text[:_SAMPLE_BYTES])
            else:
                yield message

    async def _put(self, message: SessionMessage) -> None:
        """Add a message, or drop it if the reader is closed."""
        while len(self._queue) >= _MAX_QUEUED and not self._closed:
            self._emptied = anyio.Event()
            await self._emptied.wait()
        if not self._closed:
            self._queue.append(message)
            self._filled.set()


class Outbox(SessionWriter):
    """Passes each outgoing message to the transport."""

    def __init__(self, deliver: Callable[[SessionMessage], Awaitable[None]]) -> None:
        super().__init__()
        self._deliver = deliver

    async def send(self, item: SessionMessage, /) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        await self._deliver(item)


def is_answer(message: JsonObject) -> bool:
    return message.get("method") is None


def _parse_message(value: Json, related_id: RequestId | None, answers: bool) -> JsonObject | None:
    problem = check_envelope(value)
    if problem is not None:
        id = problem.response_id
        awaited = answers and id is not None and (related_id is None or _is_same_id(id, related_id))
        return build_error_message(id, problem.code, problem.message) if awaited else None
    assert isinstance(value, dict)
    if not is_answer(value):
        return value
    if related_id is not None and value.get("id") is None:
        return {**value, "id": related_id}
    return (
        value
        if answers and (related_id is None or _is_same_id(value.get("id"), related_id))
        else None
    )


def _is_same_id(id: Json, related_id: RequestId) -> bool:
    # "1" is not 1, and True is not 1 either.
    return type(id) is type(related_id) and id == related_id
