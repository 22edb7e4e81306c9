"""One request over streamable HTTP: sent once, its answer read to the end, taken up again if cut."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mcp_types import RequestId

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.upstream.errors import NotTaken, RequestLost, Unreachable
from mcp_dispatch.upstream.transports.body import whole
from mcp_dispatch.upstream.transports.http_client import Answer, HttpClient, refusal
from mcp_dispatch.upstream.transports.http_session import SESSION_FIELD, Session, SessionForgotten
from mcp_dispatch.upstream.transports.mailbox import Inbox, is_answer
from mcp_dispatch.upstream.transports.sse_parser import Bookmark, events
from mcp_dispatch.wire.codec import Undecodable, decode
from mcp_dispatch.wire.jsonrpc import envelope_problem

ACCEPT_BOTH: Final = "application/json, text/event-stream"
EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"

_MOST_OF_AN_ERROR: Final = 64 * 1024
_MOST_RESUMES: Final = 5

Take = Callable[[JsonObject], Awaitable[None]]
Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Question:
    """A request as it goes out: its id, itself, its bytes, and headers that only it has."""

    id: RequestId
    message: JsonObject
    body: bytes
    headers: Mapping[str, str]


class Asker:
    def __init__(
        self, client: HttpClient, session: Session, inbox: Inbox, limit: int, pause: Pause
    ) -> None:
        self._client = client
        self._session = session
        self._inbox = inbox
        self._limit = limit
        self._pause = pause

    async def ask(self, question: Question, take: Take) -> None:
        """Hands over all that comes, the answer last. Raises `NotTaken` and `RequestLost`."""
        mark = Bookmark()
        try:
            answered = await self._post(question, mark, take)
        except RequestLost:
            if mark.id is None:
                raise
            answered = False
        if not answered:
            await self._resume(question.id, mark, take)

    async def _post(self, question: Question, mark: Bookmark, take: Take) -> bool:
        own = self._session.headers(question.message)
        headers = {"Accept": ACCEPT_BOTH, "Content-Type": JSON, **question.headers, **own}
        async with self._client.exchange("POST", headers, question.body) as answer:
            if not answer.good:
                await self._hear_refusal(question, answer, own.get(SESSION_FIELD), take)
                return True
            if question.message.get("method") == "initialize":
                self._session.begin(question.message, answer.fields)
            return await self._read(question.id, answer, mark, take)

    async def _read(self, id: RequestId, answer: Answer, mark: Bookmark, take: Take) -> bool:
        """Whether the answer was there."""
        match answer.media:
            case "application/json":
                text = await whole(answer.chunks, self._limit)
                return await self._hand_over(text, id, take)
            case "text/event-stream":
                async for event in events(answer.chunks, self._limit):
                    mark.note(event)
                    said = event.kind == "message" and event.data
                    if said and await self._hand_over(event.data, id, take):
                        return True
                return False
            case "" if answer.status in (202, 204):
                raise RequestLost("took the request and will not answer it")
            case media:
                raise RequestLost(
                    f"answered with the content type {media[:80]!r}, which is none here"
                )

    async def _hand_over(self, text: bytes, id: RequestId, take: Take) -> bool:
        answered = False
        for message in self._inbox.messages(text, id):
            await take(message)
            answered = answered or is_answer(message)
        return answered

    async def _resume(self, id: RequestId, mark: Bookmark, take: Take) -> None:
        """Asks for the rest of an answer that was cut short. The request is not made again."""
        failures = 0
        while mark.id is not None and failures < _MOST_RESUMES:
            await self._pause(mark.retry)
            before = mark.read
            try:
                if await self._go_on(id, mark, take):
                    return
            except (RequestLost, Unreachable):
                pass
            failures = 0 if mark.read > before else failures + 1
        raise RequestLost("ended its answer before it was complete")

    async def _go_on(self, id: RequestId, mark: Bookmark, take: Take) -> bool:
        headers = {
            **self._session.headers(),
            "Accept": EVENT_STREAM,
            "Last-Event-ID": mark.id or "",
        }
        async with self._client.exchange("GET", headers) as answer:
            if not answer.good or answer.media != EVENT_STREAM:
                mark.id = None  # it will not be otherwise the next time
                return False
            return await self._read(id, answer, mark, take)

    async def _hear_refusal(
        self, question: Question, answer: Answer, session: str | None, take: Take
    ) -> None:
        """An error of the protocol is the answer; anything else is raised."""
        error = await _error_in(answer)
        if session is not None and _forgotten(answer.status, error, question.id):
            raise SessionForgotten(session)
        if error is not None:
            await take({**error, "id": question.id})
        elif question.message.get("method") == "initialize" and answer.status in (404, 405):
            advice = 'if it is an older server, set "type": "sse"'
            raise NotTaken(f"{refusal(answer.status)}; {advice}")
        else:
            raise refusal(answer.status)


async def _error_in(answer: Answer) -> JsonObject | None:
    if answer.media != JSON:
        return None
    try:
        value: Json = decode(await whole(answer.chunks, _MOST_OF_AN_ERROR))
    except (RequestLost, Undecodable):
        return None
    if not isinstance(value, dict) or value.get("error") is None:
        return None
    return None if envelope_problem({**value, "id": None}) else value


def _forgotten(status: int, error: JsonObject | None, id: RequestId) -> bool:
    """404 by the book; 400 in the way of some servers, whose error then names no request."""
    if error is not None and error.get("id") == id:
        return False
    if status == 404:
        return True
    stated = None if error is None else error["error"]
    message = stated.get("message") if isinstance(stated, dict) else None
    return status == 400 and isinstance(message, str) and "session" in message.lower()
