"""One request over one connection to a server: sent once, its failure told in words for the model."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import anyio

from mcp_dispatch.model.client import NotAnswered
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.connection import Connection
from mcp_dispatch.upstream.errors import CallFailed, ConnectionLost, NotTaken, RequestLost
from mcp_dispatch.upstream.requests.deadline import Silence
from mcp_dispatch.upstream.requests.relay import Roots
from mcp_dispatch.upstream.requests.request import Answer, Errand, as_objects
from mcp_dispatch.upstream.requests.server_requests import CANCELLED, ELICITATION, ROOTS, Inquiry

_NOT_REPEATED: Final = (
    "The call was not repeated: check whether it took effect before you try again."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to a server; `what` is asked for, in words for the model."""

    method: str
    params: JsonObject
    what: str
    meta: JsonObject | None = None
    progress: Progress | None = None
    errand: Errand | None = None
    definition: JsonObject | None = None
    """Of the tool, as the call was judged by it."""


class Life:
    """One connection, from the start of its transport. `end` is final once `ended` is set."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.ready = anyio.Event()
        self.ended = anyio.Event()
        self.end = "closed its output"

    async def has_ended(self, patience: float) -> bool:
        """Whether this connection is over; how it ended is known then."""
        if self.connection.over.is_set():
            with anyio.move_on_after(patience):
                await self.ended.wait()
        return self.ended.is_set()


def check(request: Asked, tools: tuple[JsonObject, ...], server: str) -> None:
    """A call was judged by what was known of its tool; the server may tell otherwise since."""
    judged = request.definition
    if judged is None or any(each is judged for each in tools):
        return
    named = [each for each in tools if each.get("name") == judged.get("name")]
    if named and all(repr(each) != repr(judged) for each in named):
        raise CallFailed(
            f"The server {server!r} has changed what {request.what!r} is since this call "
            "was judged. Nothing was sent. Look at the tool's definition again before you "
            "call it."
        )


async def send(
    life: Life, request: Asked, config: ServerConfig, patience: float
) -> JsonObject | ProtocolError:
    """Raises `CallFailed`, and `NotTaken` where the request may be sent once more."""
    what = request.what
    try:
        return await life.connection.request(
            *(request.method, request.params),
            meta=request.meta,
            progress=request.progress,
            errand=request.errand,
            timeout=config.timeout,
            idle=config.idle_timeout,
        )
    except Silence as error:
        raise CallFailed(
            f"The server {config.name!r} reported no progress of {what!r} for "
            f"{config.idle_timeout:g} s and was told to stop; the call may have taken "
            'effect. A longer "idleTimeout" (in milliseconds) can be set in its entry under '
            '"mcpServers".'
        ) from error
    except TimeoutError as error:
        raise CallFailed(
            f"The server {config.name!r} did not answer {what!r} within "
            f"{config.timeout:g} s and was told to stop; the call may have taken effect. "
            'A longer "timeout" (in milliseconds) can be set in its entry under "mcpServers".'
        ) from error
    except ConnectionLost as error:
        await life.has_ended(patience)
        raise CallFailed(
            f"The server {config.name!r} {life.end} while it ran {what!r}. {_prospect(config)} "
            f"{_NOT_REPEATED}"
        ) from error
    except RequestLost as error:
        raise CallFailed(
            f"The server {config.name!r} {error} while it ran {what!r}. {_NOT_REPEATED}"
        ) from error


def not_taken(error: NotTaken, server: str) -> CallFailed:
    return CallFailed(f"The server {server!r} {error}. Nothing was run.")


def _prospect(config: ServerConfig) -> str:
    return "It is being restarted." if config.restart else "The next call restarts it."


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
