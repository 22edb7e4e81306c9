"""The rounds of one request to a server of 2026-07-28, which answers with questions first."""

from collections.abc import Awaitable, Callable
from typing import Final

from mcp_dispatch.model.client import NotAnswered
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.requests.relay import Roots
from mcp_dispatch.upstream.requests.request import Answer, Errand, as_objects
from mcp_dispatch.upstream.requests.server_requests import CANCELLED, ELICITATION, ROOTS, Inquiry

MOST_ROUNDS: Final = 20

Send = Callable[[JsonObject], Awaitable[Answer]]


async def drive(
    send: Send, params: JsonObject, errand: Errand, server: str, roots: Roots
) -> Answer:
    """The result that the last round brings. Raises `CallFailed`."""
    request = params
    for _ in range(MOST_ROUNDS):
        answer = await send(request)
        if isinstance(answer, ProtocolError) or answer.get("resultType") != "input_required":
            return answer
        if not answer.get("inputRequests") and "requestState" not in answer:
            raise CallFailed(f"The server {server!r} wants to ask something and does not say what.")
        more: JsonObject = {"inputResponses": await _responses(answer, errand, server, roots)}
        if "requestState" in answer:
            more["requestState"] = answer["requestState"]
        request = {**params, **more}
    raise CallFailed(f"The server {server!r} asked in more than {MOST_ROUNDS} rounds; it was left.")


async def _responses(answer: JsonObject, errand: Errand, server: str, roots: Roots) -> JsonObject:
    asked = as_objects(answer.get("inputRequests"))
    inquiries = {key: _inquiry(server, each) for key, each in asked.items()}
    client = errand.respondent.client
    forward_roots = not client.live and "roots" in client.capabilities
    own = {key for key, each in inquiries.items() if each.method == ROOTS and not forward_roots}
    put = {key: each for key, each in inquiries.items() if key not in own}
    try:
        answers: JsonObject = {**await errand.ask_all(put, client.volunteered)} if put else {}
    except NotAnswered as failure:
        if not all(each.method == ELICITATION for each in put.values()) or _undeclared(failure):
            raise CallFailed(
                f"The server {server!r} has a question that cannot be answered: {failure.message}"
            ) from failure
        answers = {key: dict(CANCELLED) for key in put}
    return {key: {"roots": [*roots()]} if key in own else answers[key] for key in inquiries}


def _undeclared(failure: NotAnswered) -> bool:
    return failure.code == -32601


def _inquiry(server: str, request: JsonObject) -> Inquiry:
    method, params = request.get("method"), request.get("params")
    return Inquiry(server, str(method), params if isinstance(params, dict) else {})
