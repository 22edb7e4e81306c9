"""Streamable HTTP in both protocol eras: each request is one POST and fails independently."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp_types import JSONRPCRequest, RequestId

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.errors import (
    RequestLost,
    RequestNotExecuted,
    ServerUnreachable,
    UpstreamError,
)
from mcp_dispatch.upstream.transports.http_client import HttpClient
from mcp_dispatch.upstream.transports.http_request import (
    ACCEPT_BOTH,
    EVENT_STREAM,
    JSON,
    HttpRequest,
    HttpRequestSender,
    Pause,
)
from mcp_dispatch.upstream.transports.http_session import (
    SESSION_HEADER,
    HttpSession,
    SessionForgotten,
    read_request_version,
)
from mcp_dispatch.upstream.transports.mailbox import Inbox, Outbox
from mcp_dispatch.upstream.transports.sse_parser import StreamPosition, parse_events
from mcp_dispatch.wire.codec import encode
from mcp_dispatch.wire.jsonrpc import from_session_message, parse_request_id
from mcp_dispatch.wire.sdk import ClientMessageMetadata, SessionMessage
from mcp_dispatch.wire.sdk_streams import OnInvalidLine, SessionReader, SessionWriter

_MAX_WAIT_SECONDS: Final = 30.0
_TRANSIENT_STATUSES: Final = frozenset({408, 425, 429})


class StreamOwner(Protocol):
    """The transport that a stream listener belongs to."""

    def report_problem(self, problem: str) -> None: ...

    async def renew_session(self, stale: str) -> None:
        """Start a session in place of `stale`. Raises `RequestNotExecuted`, `RequestLost`."""
        ...


class StreamListener:
    """Reads messages that belong to no request from the server's GET stream."""

    def __init__(
        self,
        client: HttpClient,
        session: HttpSession,
        inbox: Inbox,
        limit: int,
        pause: Pause,
        owner: StreamOwner,
    ) -> None:
        self._client = client
        self._session = session
        self._inbox = inbox
        self._limit = limit
        self._pause = pause
        self._owner = owner

    async def run(self) -> None:
        """Listen until cancelled, or until the server declares that it has no such stream."""
        position, failures = StreamPosition(), 0
        while True:
            before = position.events_read
            try:
                if not await self._listen(position):
                    return
            except ServerUnreachable as error:
                self._owner.report_problem(str(error))
            except (RequestNotExecuted, RequestLost):
                pass
            failures = 0 if position.events_read > before else failures + 1
            await self._pause(min(position.retry * 2 ** min(failures, 10), _MAX_WAIT_SECONDS))

    async def _listen(self, position: StreamPosition) -> bool:
        """Read one stream to its end; return whether another attempt makes sense."""
        headers = {**self._session.build_headers(), "Accept": EVENT_STREAM}
        if position.id is not None:
            headers["Last-Event-ID"] = position.id
        async with self._client.stream("GET", headers) as response:
            session = headers.get(SESSION_HEADER)
            if response.status == 404 and session is not None:
                lost = session
            elif not response.is_success:
                return response.status >= 500 or response.status in _TRANSIENT_STATUSES
            elif response.media_type != EVENT_STREAM:
                return False
            else:
                async for event in parse_events(response.chunks, self._limit):
                    position.record_event(event)
                    if event.kind == "message" and event.data:
                        for message in self._inbox.parse_messages(event.data, answers=False):
                            await self._inbox.put(message)
                return True
        position.id = None
        await self._owner.renew_session(lost)
        return True


logger = logging.getLogger(__name__)

# Seconds for sending a message without answer, and for ending the session.
_DELIVERY_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 2.0
# Messages being sent; each of them occupies a connection.
_MAX_UNSENT: Final = 100
_LIST_CHANGED_METHODS: Final = tuple(
    f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
)


@dataclass(frozen=True, slots=True)
class _ActivePost:
    modern: bool
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class StreamableHttpTransport:
    """Closed when the server is unreachable and no request is still being answered."""

    has_headers = True
    _tasks: TaskGroup

    def __init__(
        self,
        client: HttpClient,
        on_invalid_line: OnInvalidLine,
        *,
        limit: int,
        pause: Pause = anyio.sleep,
    ) -> None:
        self._client = client
        self._session = HttpSession()
        self._inbox = Inbox(on_invalid_line)
        self.reader: SessionReader = self._inbox
        self.writer: SessionWriter = Outbox(self._handle_outgoing)
        self._sender = HttpRequestSender(client, self._session, self._inbox, limit, pause)
        self._listener = StreamListener(client, self._session, self._inbox, limit, pause, self)
        self._posts: dict[RequestId, _ActivePost] = {}
        self._errors: dict[RequestId, UpstreamError] = {}
        self._renew_lock = anyio.Lock()
        self.renewals = 0
        self._unsent = 0
        self._fault: str | None = None
        self.closed = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        try:
            async with anyio.create_task_group() as self._tasks:
                task_status.started()
                await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_SECONDS):
                await self._end_session()

    def set_protocol_version(self, version: str) -> None:
        self._session.version = version

    def pop_error(self, id: RequestId) -> UpstreamError | None:
        return self._errors.pop(id, None)

    async def wait_for_end_reason(self, timeout: float) -> str:
        return self._fault or "closed the connection"

    # -- outgoing messages

    async def _handle_outgoing(self, item: SessionMessage) -> None:
        message = from_session_message(item)
        body, method = encode(message), message.get("method")
        if isinstance(item.message, JSONRPCRequest):
            self._start_request(
                HttpRequest(item.message.id, message, body, _read_own_headers(item))
            )
        elif method == "notifications/cancelled":
            await self._cancel_request(message, body)
        else:
            await self._send_message(message, body)
            if method == "notifications/initialized":
                self._tasks.start_soon(self._listener.run)

    def _start_request(self, request: HttpRequest) -> None:
        # Registered before it runs: the next message may already cancel it.
        post = _ActivePost(read_request_version(request.message) is not None)
        self._posts[request.id] = post
        self._tasks.start_soon(self._run_request, request, post)

    async def _run_request(self, request: HttpRequest, post: _ActivePost) -> None:
        loss: UpstreamError | None = None
        with post.scope:
            try:
                await self._send_request(request)
                self._fault = None
            except UpstreamError as error:
                loss = error
            except Exception as error:  # the boundary: requests fail independently
                logger.exception("a request to an upstream failed")
                loss = RequestLost(f"could not be understood ({type(error).__name__})")
        del self._posts[request.id]
        if isinstance(loss, ServerUnreachable):
            self._fault = str(loss)
        self._close_if_idle()
        if loss is not None:
            self._errors[request.id] = loss
            await self._inbox.put_lost_error(request.id)

    async def _send_request(self, request: HttpRequest) -> None:
        take = partial(self._inbox.put, related_id=request.id)
        if self._renew_lock.locked():
            async with self._renew_lock:
                pass
        try:
            await self._sender.send(request, take)
        except SessionForgotten as forgotten:
            await self.renew_session(forgotten.id)
            try:
                await self._sender.send(request, take)
            except SessionForgotten as again:
                raise RequestNotExecuted("forgets every session at once") from again

    async def _cancel_request(self, message: JsonObject, body: bytes) -> None:
        """Cancel a POST. In the modern era, closing the stream is the cancellation."""
        params = message.get("params")
        id = parse_request_id(params.get("requestId")) if isinstance(params, dict) else None
        post = None if id is None else self._posts.get(id)
        try:
            if post is not None and not post.modern:
                await self._send_message(message, body)
        finally:
            if post is not None:
                post.scope.cancel()

    async def _send_message(self, message: JsonObject, body: bytes) -> None:
        """Send a message without answer. A failure shows in the requests that follow."""
        if self._unsent >= _MAX_UNSENT:
            self._fault = "keeps asking and does not take the answers"
            self.closed.set()
            return
        headers = {
            "Accept": ACCEPT_BOTH,
            "Content-Type": JSON,
            **self._session.build_headers(message),
        }
        self._unsent += 1
        try:
            with suppress(RequestNotExecuted, RequestLost), anyio.move_on_after(_DELIVERY_SECONDS):
                async with self._client.stream("POST", headers, body):
                    return
        finally:
            self._unsent -= 1

    # -- state of the connection

    def report_problem(self, problem: str) -> None:
        self._fault = problem
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._fault is not None and not self._posts:
            self.closed.set()

    async def renew_session(self, stale: str) -> None:
        """Start another session in place of one that the server has lost."""
        async with self._renew_lock:
            initialize = self._session.initialize_request
            if self._session.id != stale or initialize is None:
                return
            self.renewals += 1
            id = f"renewal-{self.renewals}"
            request: JsonObject = {**initialize, "id": id}
            answers: list[JsonObject] = []

            async def collect(message: JsonObject) -> None:
                answers.append(message)

            await self._sender.send(HttpRequest(id, request, encode(request), {}), collect)
            if answers[-1].get("error") is not None:
                self._session.id = stale
                raise RequestNotExecuted("forgot the session and refuses to begin another")
            initialized: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self._send_message(initialized, encode(initialized))
        # The server may have been replaced, so all lists are read again.
        for method in _LIST_CHANGED_METHODS:
            await self._inbox.put({"jsonrpc": "2.0", "method": method})

    async def _end_session(self) -> None:
        if self._session.id is not None and self._fault is None:
            with suppress(RequestNotExecuted, RequestLost):
                async with self._client.stream("DELETE", self._session.build_headers()):
                    return


def _read_own_headers(item: SessionMessage) -> Mapping[str, str]:
    own = item.metadata.headers if isinstance(item.metadata, ClientMessageMetadata) else None
    return own or {}
