"""The ASGI application: what comes through the door is read and checked, then the SDK's."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_dispatch.server.http.active_requests import ActiveRequests
from mcp_dispatch.server.http.auth import Authenticator, build_error_response
from mcp_dispatch.server.http.body_limit import BodyLimiter, BodyRejected
from mcp_dispatch.wire.codec import Undecodable, decode, encode
from mcp_dispatch.wire.jsonrpc import (
    EnvelopeProblem,
    build_error_message,
    check_envelope,
    parse_request_id,
)
from mcp_dispatch.wire.sdk import PRINCIPAL_KEY, REQUEST_ENDED_KEY

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
_SESSION_HEADER = "mcp-session-id"
_LISTEN_METHOD = "subscriptions/listen"


@dataclass(frozen=True, slots=True)
class _MessageHead:
    """What we need to know of a message; a response has no method, a notification no id."""

    id: str | int | None
    method: str | None


class _MessageRejected(Exception):
    """A message that the SDK does not get to see."""

    def __init__(self, problem: EnvelopeProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class McpAsgiApp:
    """`inside` is the SDK's application, for requests that may come in."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        body_limiter: BodyLimiter,
        active_requests: ActiveRequests,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._body_limiter = body_limiter
        self._active_requests = active_requests
        self._in_flight: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._authenticator.check_request(scope)
        if answer is None and self._active_requests.closing:
            answer = build_error_response(503, "the server is stopping")
        if answer is not None:
            await answer(scope, receive, send)
            return
        scope[PRINCIPAL_KEY] = self._authenticator.principal
        if scope["method"] == "POST":
            await self._handle_post(scope, receive, send)
        else:
            await self._forward(scope, receive, send, is_stream=scope["method"] == "GET")

    async def _handle_post(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._body_limiter.read_body(_read_content_length(scope), receive) as body:
                head, again = _parse_head(body), _replay_body(body, receive)
                del body  # it may be large, and the SDK makes copies of its own
                with self._reserve_id(scope, head):
                    await self._forward(scope, again, send, is_stream=head.method == _LISTEN_METHOD)
        except BodyRejected as problem:
            await build_error_response(problem.status, str(problem))(scope, receive, send)
        except _MessageRejected as refused:
            await _build_rpc_error(refused.problem)(scope, receive, send)

    async def _forward(
        self, scope: Scope, receive: Receive, send: Send, *, is_stream: bool
    ) -> None:
        async with (
            self._active_requests.track(is_stream=is_stream) as visit,
            visit.guard_response(send),
        ):
            scope[REQUEST_ENDED_KEY] = visit.ended
            await self._app(scope, visit.watch_receive(receive), visit.track_send(send))

    @contextmanager
    def _reserve_id(self, scope: Scope, head: _MessageHead) -> Generator[None]:
        """Two requests with one id in one session would get each other's answers."""
        session, id = Headers(scope=scope).get(_SESSION_HEADER), head.id
        if session is None or id is None or head.method is None:
            yield
            return
        key = (session, str(id))
        if key in self._in_flight:
            text = "Invalid Request: this id is already in flight; use a new one"
            raise _MessageRejected(EnvelopeProblem(INVALID_REQUEST, text, id))
        self._in_flight.add(key)
        try:
            yield
        finally:
            self._in_flight.discard(key)


def _read_content_length(scope: Scope) -> int | None:
    length = Headers(scope=scope).get("content-length", "")
    return int(length) if length.isdecimal() else None


def _parse_head(body: bytes) -> _MessageHead:
    """What the SDK would misread or stumble over is refused, as on standard input."""
    try:
        message = decode(body)
    except Undecodable as problem:
        raise _MessageRejected(EnvelopeProblem(PARSE_ERROR, f"Parse error: {problem}")) from problem
    problem = check_envelope(message)
    if problem is not None or not isinstance(message, dict):
        raise _MessageRejected(problem or EnvelopeProblem(INVALID_REQUEST, "Invalid Request"))
    method = message.get("method")
    return _MessageHead(
        parse_request_id(message.get("id")), method if isinstance(method, str) else None
    )


def _build_rpc_error(problem: EnvelopeProblem) -> Response:
    body = encode(build_error_message(problem.id, problem.code, problem.message))
    return Response(body, 400, media_type="application/json")


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """The body once more, then whatever comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
