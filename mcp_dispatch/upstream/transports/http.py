"""Streamable HTTP, both eras: each request is a POST of its own, and fails alone."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import JSONRPCRequest, RequestId

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.errors import NotTaken, RequestLost, Unreachable, UpstreamError
from mcp_dispatch.upstream.transports.http_client import HttpClient
from mcp_dispatch.upstream.transports.http_request import (
    ACCEPT_BOTH,
    EVENT_STREAM,
    JSON,
    Asker,
    Pause,
    Question,
)
from mcp_dispatch.upstream.transports.http_session import (
    SESSION_FIELD,
    Session,
    SessionForgotten,
    stamped_version,
)
from mcp_dispatch.upstream.transports.mailbox import Inbox, Outbox
from mcp_dispatch.upstream.transports.sse_parser import Bookmark, events
from mcp_dispatch.wire.codec import encode
from mcp_dispatch.wire.jsonrpc import from_session_message, usable_id
from mcp_dispatch.wire.sdk_streams import OnNoise, SessionReader, SessionWriter

_LONGEST_WAIT: Final = 30.0
_MAY_PASS: Final = frozenset({408, 425, 429})


class Owner(Protocol):
    """What the listener may tell the transport it belongs to."""

    def trouble(self, problem: str) -> None: ...

    async def renew(self, stale: str) -> None:
        """Raises `NotTaken` and `RequestLost`."""
        ...


class Listening:
    def __init__(
        self,
        client: HttpClient,
        session: Session,
        inbox: Inbox,
        limit: int,
        pause: Pause,
        owner: Owner,
    ) -> None:
        self._client = client
        self._session = session
        self._inbox = inbox
        self._limit = limit
        self._pause = pause
        self._owner = owner

    async def run(self) -> None:
        """Until cancelled, or until the server says that it has no such stream."""
        mark, failures = Bookmark(), 0
        while True:
            before = mark.read
            try:
                if not await self._listen(mark):
                    return
            except Unreachable as error:
                self._owner.trouble(str(error))
            except (NotTaken, RequestLost):
                pass
            failures = 0 if mark.read > before else failures + 1
            await self._pause(min(mark.retry * 2 ** min(failures, 10), _LONGEST_WAIT))

    async def _listen(self, mark: Bookmark) -> bool:
        """Whether it is worth another try, once this stream has ended."""
        headers = {**self._session.headers(), "Accept": EVENT_STREAM}
        if mark.id is not None:
            headers["Last-Event-ID"] = mark.id
        async with self._client.exchange("GET", headers) as answer:
            session = headers.get(SESSION_FIELD)
            if answer.status == 404 and session is not None:
                forgotten = session
            elif not answer.good:
                return answer.status >= 500 or answer.status in _MAY_PASS
            elif answer.media != EVENT_STREAM:
                return False
            else:
                async for event in events(answer.chunks, self._limit):
                    mark.note(event)
                    if event.kind == "message" and event.data:
                        for message in self._inbox.messages(event.data, answers=False):
                            await self._inbox.put(message)
                return True
        mark.id = None
        await self._owner.renew(forgotten)
        return True


logger = logging.getLogger(__name__)

# Seconds: for a message that has no answer to wait for; for taking leave.
_DELIVERY: Final = 30.0
_FAREWELL: Final = 2.0
# Each of them holds a connection open.
_MOST_UNSENT: Final = 100
_CHANGED: Final = tuple(
    f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
)


@dataclass(frozen=True, slots=True)
class _Post:
    modern: bool
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class StreamableHttp:
    """Over once nobody listens at the address any more and no request is still being answered."""

    _tasks: TaskGroup

    def __init__(
        self, client: HttpClient, on_noise: OnNoise, *, limit: int, pause: Pause = anyio.sleep
    ) -> None:
        self._client = client
        self._session = Session()
        self._inbox = Inbox(on_noise)
        self._outbox = Outbox(self._take)
        self._asker = Asker(client, self._session, self._inbox, limit, pause)
        self._listening = Listening(client, self._session, self._inbox, limit, pause, self)
        self._posts: dict[RequestId, _Post] = {}
        self._losses: dict[RequestId, UpstreamError] = {}
        self._renewing = anyio.Lock()
        self._renewals = 0
        self._unsent = 0
        self._fault: str | None = None
        self._over = anyio.Event()

    @property
    def has_headers(self) -> bool:
        return True

    @property
    def renewals(self) -> int:
        return self._renewals

    @property
    def reader(self) -> SessionReader:
        return self._inbox

    @property
    def writer(self) -> SessionWriter:
        return self._outbox

    @property
    def over(self) -> anyio.Event:
        return self._over

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        try:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_FAREWELL):
                await self._take_leave()

    def agreed(self, version: str) -> None:
        self._session.version = version

    def loss(self, id: RequestId) -> UpstreamError | None:
        return self._losses.pop(id, None)

    async def end(self, patience: float) -> str:
        return self._fault or "closed the connection"

    # -- what is written

    async def _take(self, item: SessionMessage) -> None:
        message = from_session_message(item)
        body, method = encode(message), message.get("method")
        if isinstance(item.message, JSONRPCRequest):
            self._start(Question(item.message.id, message, body, _own_headers(item)))
        elif method == "notifications/cancelled":
            await self._cancel(message, body)
        else:
            await self._tell(message, body)
            if method == "notifications/initialized":
                self._tasks.start_soon(self._listening.run)

    def _start(self, question: Question) -> None:
        # Known before it runs: the next message may already be the one that cancels it.
        post = _Post(stamped_version(question.message) is not None)
        self._posts[question.id] = post
        self._tasks.start_soon(self._carry, question, post)

    async def _carry(self, question: Question, post: _Post) -> None:
        loss: UpstreamError | None = None
        with post.scope:
            try:
                await self._ask(question)
                self._fault = None
            except UpstreamError as error:
                loss = error
            except Exception as error:  # the boundary: one request's trouble is no other's
                logger.exception("a request to an upstream failed")
                loss = RequestLost(f"could not be understood ({type(error).__name__})")
        del self._posts[question.id]
        if isinstance(loss, Unreachable):
            self._fault = str(loss)
        self._settle()
        if loss is not None:
            self._losses[question.id] = loss
            await self._inbox.lose(question.id)

    async def _ask(self, question: Question) -> None:
        take = partial(self._inbox.put, about=question.id)
        if self._renewing.locked():
            async with self._renewing:
                pass
        try:
            await self._asker.ask(question, take)
        except SessionForgotten as forgotten:
            await self.renew(forgotten.id)
            try:
                await self._asker.ask(question, take)
            except SessionForgotten as again:
                raise NotTaken("forgets every session at once") from again

    async def _cancel(self, message: JsonObject, body: bytes) -> None:
        """In the era without sessions the end of the stream says it all."""
        params = message.get("params")
        id = usable_id(params.get("requestId")) if isinstance(params, dict) else None
        post = None if id is None else self._posts.get(id)
        try:
            if post is not None and not post.modern:
                await self._tell(message, body)
        finally:
            if post is not None:
                post.scope.cancel()

    async def _tell(self, message: JsonObject, body: bytes) -> None:
        """A message without an answer. That it did not arrive shows in what comes after it."""
        if self._unsent >= _MOST_UNSENT:
            self._fault = "keeps asking and does not take the answers"
            self._over.set()
            return
        headers = {"Accept": ACCEPT_BOTH, "Content-Type": JSON, **self._session.headers(message)}
        self._unsent += 1
        try:
            with suppress(NotTaken, RequestLost), anyio.move_on_after(_DELIVERY):
                async with self._client.exchange("POST", headers, body):
                    return
        finally:
            self._unsent -= 1

    # -- what becomes of the connection

    def trouble(self, problem: str) -> None:
        self._fault = problem
        self._settle()

    def _settle(self) -> None:
        if self._fault is not None and not self._posts:
            self._over.set()

    async def renew(self, stale: str) -> None:
        """Begins another session, in place of one that the server has forgotten."""
        async with self._renewing:
            greeting = self._session.greeting
            if self._session.id != stale or greeting is None:
                return
            self._renewals += 1
            id = f"renewal-{self._renewals}"
            again: JsonObject = {**greeting, "id": id}
            answers: list[JsonObject] = []

            async def take(message: JsonObject) -> None:
                answers.append(message)

            await self._asker.ask(Question(id, again, encode(again), {}), take)
            if answers[-1].get("error") is not None:
                self._session.id = stale
                raise NotTaken("forgot the session and refuses to begin another")
            initialized: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self._tell(initialized, encode(initialized))
        # It may be another server by now.
        for method in _CHANGED:
            await self._inbox.put({"jsonrpc": "2.0", "method": method})

    async def _take_leave(self) -> None:
        if self._session.id is not None and self._fault is None:
            with suppress(NotTaken, RequestLost):
                async with self._client.exchange("DELETE", self._session.headers()):
                    return


def _own_headers(item: SessionMessage) -> Mapping[str, str]:
    own = item.metadata.headers if isinstance(item.metadata, ClientMessageMetadata) else None
    return own or {}
