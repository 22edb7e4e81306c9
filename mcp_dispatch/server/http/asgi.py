"""The ASGI application: what comes through the door is read and checked, then the SDK's."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_dispatch.server.http.active_requests import Visits
from mcp_dispatch.server.http.auth import Door, told
from mcp_dispatch.server.http.body_limit import Intake, NotTaken
from mcp_dispatch.wire.codec import Undecodable, decode, encode
from mcp_dispatch.wire.jsonrpc import EnvelopeProblem, envelope_problem, error_message, usable_id
from mcp_dispatch.wire.sdk import OVER, PRINCIPAL

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
_SESSION = "mcp-session-id"
_LISTEN = "subscriptions/listen"


@dataclass(frozen=True, slots=True)
class _Head:
    """What we need to know of a message; a response has no method, a notification no id."""

    id: str | int | None
    method: str | None


class _Refused(Exception):
    """A message that the SDK does not get to see."""

    def __init__(self, problem: EnvelopeProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Front:
    """`inside` is the SDK's application, for requests that may come in."""

    def __init__(self, inside: ASGIApp, door: Door, intake: Intake, visits: Visits) -> None:
        self._inside = inside
        self._door = door
        self._intake = intake
        self._visits = visits
        self._in_flight: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._door.answer(scope)
        if answer is None and self._visits.closing:
            answer = told(503, "the server is stopping")
        if answer is not None:
            await answer(scope, receive, send)
            return
        scope[PRINCIPAL] = self._door.principal
        if scope["method"] == "POST":
            await self._take(scope, receive, send)
        else:
            await self._admit(scope, receive, send, is_stream=scope["method"] == "GET")

    async def _take(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._intake.body(_declared(scope), receive) as body:
                head, again = _read(body), _again(body, receive)
                del body  # it may be large, and the SDK makes copies of its own
                with self._once(scope, head):
                    await self._admit(scope, again, send, is_stream=head.method == _LISTEN)
        except NotTaken as problem:
            await told(problem.status, str(problem))(scope, receive, send)
        except _Refused as refused:
            await _rpc_error(refused.problem)(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send, *, is_stream: bool) -> None:
        async with self._visits.one(is_stream=is_stream) as visit, visit.staying(send):
            scope[OVER] = visit.over
            await self._inside(scope, visit.watched(receive), visit.noted(send))

    @contextmanager
    def _once(self, scope: Scope, head: _Head) -> Generator[None]:
        """Two requests with one id in one session would get each other's answers."""
        session, id = Headers(scope=scope).get(_SESSION), head.id
        if session is None or id is None or head.method is None:
            yield
            return
        key = (session, str(id))
        if key in self._in_flight:
            text = "Invalid Request: this id is already in flight; use a new one"
            raise _Refused(EnvelopeProblem(INVALID_REQUEST, text, id))
        self._in_flight.add(key)
        try:
            yield
        finally:
            self._in_flight.discard(key)


def _declared(scope: Scope) -> int | None:
    length = Headers(scope=scope).get("content-length", "")
    return int(length) if length.isdecimal() else None


def _read(body: bytes) -> _Head:
    """What the SDK would misread or stumble over is refused, as on standard input."""
    try:
        message = decode(body)
    except Undecodable as problem:
        raise _Refused(EnvelopeProblem(PARSE_ERROR, f"Parse error: {problem}")) from problem
    problem = envelope_problem(message)
    if problem is not None or not isinstance(message, dict):
        raise _Refused(problem or EnvelopeProblem(INVALID_REQUEST, "Invalid Request"))
    method = message.get("method")
    return _Head(usable_id(message.get("id")), method if isinstance(method, str) else None)


def _rpc_error(problem: EnvelopeProblem) -> Response:
    body = encode(error_message(problem.id, problem.code, problem.message))
    return Response(body, 400, media_type="application/json")


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, then whatever comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
