"""Sends one request over streamable HTTP and reads its answer, resuming a stream that was cut."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mcp_types import RequestId

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.upstream.errors import RequestLost, RequestNotExecuted, ServerUnreachable
from mcp_dispatch.upstream.transports.body import read_body
from mcp_dispatch.upstream.transports.http_client import HttpClient, HttpResponse, to_status_error
from mcp_dispatch.upstream.transports.http_session import (
    SESSION_HEADER,
    HttpSession,
    SessionForgotten,
)
from mcp_dispatch.upstream.transports.mailbox import Inbox, is_answer
from mcp_dispatch.upstream.transports.sse_parser import StreamPosition, parse_events
from mcp_dispatch.wire.codec import Undecodable, decode
from mcp_dispatch.wire.jsonrpc import check_envelope

ACCEPT_BOTH: Final = "application/json, text/event-stream"
EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"

_MAX_ERROR_BYTES: Final = 64 * 1024
_MAX_RESUMES: Final = 5

HandleMessage = Callable[[JsonObject], Awaitable[None]]
Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request with its id, its encoded body and its own headers."""

    id: RequestId
    message: JsonObject
    body: bytes
    headers: Mapping[str, str]


class HttpRequestSender:
    """Sends requests of one session. A request is sent once; only its answer is resumed."""

    def __init__(
        self, client: HttpClient, session: HttpSession, inbox: Inbox, limit: int, pause: Pause
    ) -> None:
        self._client = client
        self._session = session
        self._inbox = inbox
        self._limit = limit
        self._pause = pause

    async def send(self, request: HttpRequest, handle: HandleMessage) -> None:
        """Pass all messages to `handle`, the answer last.

        Raises `RequestNotExecuted` and `RequestLost`.
        """
        position = StreamPosition()
        try:
            answered = await self._post(request, position, handle)
        except RequestLost:
            if position.id is None:
                raise
            answered = False
        if not answered:
            await self._resume(request.id, position, handle)

    async def _post(
        self, request: HttpRequest, position: StreamPosition, handle: HandleMessage
    ) -> bool:
        own = self._session.build_headers(request.message)
        headers = {"Accept": ACCEPT_BOTH, "Content-Type": JSON, **request.headers, **own}
        async with self._client.stream("POST", headers, request.body) as response:
            if not response.is_success:
                await self._handle_refusal(request, response, own.get(SESSION_HEADER), handle)
                return True
            if request.message.get("method") == "initialize":
                self._session.begin(request.message, response.headers)
            return await self._read_response(request.id, response, position, handle)

    async def _read_response(
        self, id: RequestId, response: HttpResponse, position: StreamPosition, handle: HandleMessage
    ) -> bool:
        """Return whether the answer was read."""
        match response.media_type:
            case "application/json":
                text = await read_body(response.chunks, self._limit)
                return await self._forward_messages(text, id, handle)
            case "text/event-stream":
                async for event in parse_events(response.chunks, self._limit):
                    position.record_event(event)
                    has_message = event.kind == "message" and event.data
                    if has_message and await self._forward_messages(event.data, id, handle):
                        return True
                return False
            case "" if response.status in (202, 204):
                raise RequestLost("took the request and will not answer it")
            case media:
                raise RequestLost(
                    f"answered with the content type {media[:80]!r}, which is none here"
                )

    async def _forward_messages(self, text: bytes, id: RequestId, handle: HandleMessage) -> bool:
        answered = False
        for message in self._inbox.parse_messages(text, id):
            await handle(message)
            answered = answered or is_answer(message)
        return answered

    async def _resume(self, id: RequestId, position: StreamPosition, handle: HandleMessage) -> None:
        """Request the rest of an answer that was cut off. The request is not sent again."""
        failures = 0
        while position.id is not None and failures < _MAX_RESUMES:
            await self._pause(position.retry)
            before = position.events_read
            try:
                if await self._resume_once(id, position, handle):
                    return
            except (RequestLost, ServerUnreachable):
                pass
            failures = 0 if position.events_read > before else failures + 1
        raise RequestLost("ended its answer before it was complete")

    async def _resume_once(
        self, id: RequestId, position: StreamPosition, handle: HandleMessage
    ) -> bool:
        headers = {
            **self._session.build_headers(),
            "Accept": EVENT_STREAM,
            "Last-Event-ID": position.id or "",
        }
        async with self._client.stream("GET", headers) as response:
            if not response.is_success or response.media_type != EVENT_STREAM:
                position.id = None  # the stream cannot be resumed
                return False
            return await self._read_response(id, response, position, handle)

    async def _handle_refusal(
        self,
        request: HttpRequest,
        response: HttpResponse,
        session: str | None,
        handle: HandleMessage,
    ) -> None:
        """Pass a JSON-RPC error on as the answer; raise any other refusal."""
        error = await _read_error(response)
        if session is not None and _is_session_forgotten(response.status, error, request.id):
            raise SessionForgotten(session)
        if error is not None:
            await handle({**error, "id": request.id})
        elif request.message.get("method") == "initialize" and response.status in (404, 405):
            advice = 'if it is an older server, set "type": "sse"'
            raise RequestNotExecuted(f"{to_status_error(response.status)}; {advice}")
        else:
            raise to_status_error(response.status)


async def _read_error(response: HttpResponse) -> JsonObject | None:
    if response.media_type != JSON:
        return None
    try:
        value: Json = decode(await read_body(response.chunks, _MAX_ERROR_BYTES))
    except (RequestLost, Undecodable):
        return None
    if not isinstance(value, dict) or value.get("error") is None:
        return None
    return None if check_envelope({**value, "id": None}) else value


def _is_session_forgotten(status: int, error: JsonObject | None, id: RequestId) -> bool:
    """404 as the specification requires; some servers send 400 with an error without id."""
    if error is not None and error.get("id") == id:
        return False
    if status == 404:
        return True
    stated = None if error is None else error["error"]
    message = stated.get("message") if isinstance(stated, dict) else None
    return status == 400 and isinstance(message, str) and "session" in message.lower()
