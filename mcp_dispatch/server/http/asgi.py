"""The ASGI application: a stack of middlewares around the SDK's application."""

from dataclasses import dataclass
from typing import Final

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

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
_SESSION_HEADER: Final = "mcp-session-id"
_LISTEN_METHOD: Final = "subscriptions/listen"
_HEAD_KEY: Final = "mcp_dispatch.message_head"


@dataclass(frozen=True, slots=True)
class _MessageHead:
    """The id and method of a message; a response has no method, a notification no id."""

    id: str | int | None
    method: str | None


def build_app(
    sdk_app: ASGIApp,
    authenticator: Authenticator,
    body_limiter: BodyLimiter,
    active_requests: ActiveRequests,
) -> ASGIApp:
    """Return the stack of middlewares. A request passes through the last one first."""
    app: ASGIApp = RequestTracking(sdk_app, active_requests)
    app = UniqueRequestIds(app)
    app = MessageValidation(app, body_limiter)
    app = ShutdownGate(app, active_requests)
    return Authentication(app, authenticator)


class Authentication:
    """Rejects requests without permission; puts the principal of the others into the scope."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = self._authenticator.check_request(scope)
        if response is not None:
            await response(scope, receive, send)
            return
        scope[PRINCIPAL_KEY] = self._authenticator.principal
        await self._app(scope, receive, send)


class ShutdownGate:
    """Rejects new requests while the server is stopping."""

    def __init__(self, app: ASGIApp, active_requests: ActiveRequests) -> None:
        self._app = app
        self._active_requests = active_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if self._active_requests.closing:
            app = build_error_response(503, "the server is stopping")
        await app(scope, receive, send)


class MessageValidation:
    """Reads the body of a POST, rejects invalid messages, and replays the body for the SDK."""

    def __init__(self, app: ASGIApp, body_limiter: BodyLimiter) -> None:
        self._app = app
        self._body_limiter = body_limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            async with self._body_limiter.read_body(_read_content_length(scope), receive) as body:
                head, replay = _parse_head(body), _replay_body(body, receive)
                del body  # it may be large, and the SDK makes copies of its own
                if isinstance(head, EnvelopeProblem):
                    await _build_rpc_error(head)(scope, receive, send)
                    return
                scope[_HEAD_KEY] = head
                await self._app(scope, replay, send)
        except BodyRejected as problem:
            await build_error_response(problem.status, str(problem))(scope, receive, send)


class UniqueRequestIds:
    """Rejects a request whose id is in flight in its session.

    Two such requests would receive each other's responses.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._in_flight: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session, head = Headers(scope=scope).get(_SESSION_HEADER), _get_head(scope)
        if session is None or head.id is None or head.method is None:
            await self._app(scope, receive, send)
            return
        key = (session, str(head.id))
        if key in self._in_flight:
            text = "Invalid Request: this id is already in flight; use a new one"
            problem = EnvelopeProblem(INVALID_REQUEST, text, head.id)
            await _build_rpc_error(problem)(scope, receive, send)
            return
        self._in_flight.add(key)
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight.discard(key)


class RequestTracking:
    """Keeps each request in `active_requests`, which ends it when the server stops."""

    def __init__(self, app: ASGIApp, active_requests: ActiveRequests) -> None:
        self._app = app
        self._active_requests = active_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_stream = scope["method"] == "GET" or _get_head(scope).method == _LISTEN_METHOD
        async with (
            self._active_requests.track(is_stream=is_stream) as request,
            request.guard_response(send),
        ):
            scope[REQUEST_ENDED_KEY] = request.ended
            await self._app(scope, request.watch_receive(receive), request.track_send(send))


def _get_head(scope: Scope) -> _MessageHead:
    """Return the head of the message; empty for a request without a body."""
    return scope.get(_HEAD_KEY, _MessageHead(None, None))


def _read_content_length(scope: Scope) -> int | None:
    length = Headers(scope=scope).get("content-length", "")
    return int(length) if length.isdecimal() else None


def _parse_head(body: bytes) -> _MessageHead | EnvelopeProblem:
    """Reject what the SDK would misread or fail on, as the stdio server does."""
    try:
        message = decode(body)
    except Undecodable as problem:
        return EnvelopeProblem(PARSE_ERROR, f"Parse error: {problem}")
    problem = check_envelope(message)
    if problem is not None or not isinstance(message, dict):
        return problem or EnvelopeProblem(INVALID_REQUEST, "Invalid Request")
    method = message.get("method")
    return _MessageHead(
        parse_request_id(message.get("id")), method if isinstance(method, str) else None
    )


def _build_rpc_error(problem: EnvelopeProblem) -> Response:
    body = encode(build_error_message(problem.id, problem.code, problem.message))
    return Response(body, 400, media_type="application/json")


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that delivers the body again and then the events that follow it."""
    events: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return events.pop() if events else await receive()

    return replay
