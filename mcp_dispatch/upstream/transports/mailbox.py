"""What a server sent over HTTP, whichever answer it came in, as the one stream that the SDK reads."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import RequestId

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.codec import Undecodable, decode
from mcp_dispatch.wire.jsonrpc import build_error_message, check_envelope, to_session_message
from mcp_dispatch.wire.sdk_streams import OnInvalidLine, SessionReader, SessionWriter

_MAX_QUEUED: Final = 16
_SAMPLE_BYTES: Final = 200
# The SDK needs a code for what is told it in place of an answer; who asked looks at the loss.
_LOST_CODE: Final = -32000


class Inbox(SessionReader):
    """A message that is none is reported and skipped. Whoever puts waits for the reader."""

    def __init__(self, on_noise: OnInvalidLine) -> None:
        super().__init__()
        self._on_noise = on_noise
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
        """`about` is the request of ours in whose answer the message came."""
        await self._put(
            to_session_message(message, ServerMessageMetadata(related_request_id=related_id))
        )

    async def put_lost_error(self, id: RequestId) -> None:
        """Wakes whoever waits for the answer to this request."""
        await self._put(to_session_message(build_error_message(id, _LOST_CODE, "no answer")))

    def parse_messages(
        self, text: bytes, related_id: RequestId | None = None, *, answers: bool = True
    ) -> Iterator[JsonObject]:
        """Those of one body or event.

        With `about`, an answer to any other request is none here; without `answers`, every one is.
        A batch, which one version allowed, is taken apart. A broken answer becomes an error; an
        error that names no request is one to `about`.
        """
        try:
            value = decode(text)
        except Undecodable:
            self._on_noise("undecodable", text[:_SAMPLE_BYTES])
            return
        for each in value if isinstance(value, list) else [value]:
            message = _parse_message(each, related_id, answers)
            if message is None:
                self._on_noise("envelope", text[:_SAMPLE_BYTES])
            else:
                yield message

    async def _put(self, message: SessionMessage) -> None:
        """What comes when nobody reads any more is dropped: the connection is being left."""
        while len(self._queue) >= _MAX_QUEUED and not self._closed:
            self._emptied = anyio.Event()
            await self._emptied.wait()
        if not self._closed:
            self._queue.append(message)
            self._filled.set()


class Outbox(SessionWriter):
    """Hands each message over, one by one or side by side as the transport likes."""

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
