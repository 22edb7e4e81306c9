"""One request over one connection to a server: sent once, its failure told in words for the model."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import anyio

from mcp_dispatch.model.client import ClientRequestError
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.connection import Connection
from mcp_dispatch.upstream.errors import CallFailed, ConnectionLost, RequestLost, RequestNotExecuted
from mcp_dispatch.upstream.requests.deadline import IdleTimeout
from mcp_dispatch.upstream.requests.relay import ListRoots
from mcp_dispatch.upstream.requests.request import UpstreamAnswer, UpstreamRequest, filter_objects
from mcp_dispatch.upstream.requests.server_requests import (
    CANCELLED,
    ELICITATION,
    ROOTS,
    ServerRequest,
)

_NOT_REPEATED: Final = (
    "The call was not repeated: check whether it took effect before you try again."
)


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request to a server; `what` is asked for, in words for the model."""

    method: str
    params: JsonObject
    label: str
    meta: JsonObject | None = None
    progress: Progress | None = None
    upstream_request: UpstreamRequest | None = None
    definition: JsonObject | None = None
    """Of the tool, as the call was judged by it."""


class ConnectionLease:
    """One connection, from the start of its transport. `end` is final once `ended` is set."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.ready = anyio.Event()
        self.ended = anyio.Event()
        self.end_reason = "closed its output"

    async def has_ended(self, timeout: float) -> bool:
        """Whether this connection is over; how it ended is known then."""
        if self.connection.closed.is_set():
            with anyio.move_on_after(timeout):
                await self.ended.wait()
        return self.ended.is_set()


def check_definition(request: RequestSpec, tools: tuple[JsonObject, ...], server: str) -> None:
    """A call was judged by what was known of its tool; the server may tell otherwise since."""
    judged = request.definition
    if judged is None or any(each is judged for each in tools):
        return
    named = [each for each in tools if each.get("name") == judged.get("name")]
    if named and all(repr(each) != repr(judged) for each in named):
        raise CallFailed(
            f"The server {server!r} has changed what {request.label!r} is since this call "
            "was judged. Nothing was sent. Look at the tool's definition again before you "
            "call it."
        )


async def send_request(
    lease: ConnectionLease, request: RequestSpec, config: ServerConfig, end_timeout: float
) -> JsonObject | ProtocolError:
    """Raises `CallFailed`, and `NotTaken` where the request may be sent once more."""
    what = request.label
    try:
        return await lease.connection.request(
            *(request.method, request.params),
            meta=request.meta,
            progress=request.progress,
            upstream_request=request.upstream_request,
            timeout=config.timeout,
            idle_timeout=config.idle_timeout,
        )
    except IdleTimeout as error:
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
        await lease.has_ended(end_timeout)
        raise CallFailed(
            f"The server {config.name!r} {lease.end_reason} while it ran {what!r}. {_describe_restart(config)} "
            f"{_NOT_REPEATED}"
        ) from error
    except RequestLost as error:
        raise CallFailed(
            f"The server {config.name!r} {error} while it ran {what!r}. {_NOT_REPEATED}"
        ) from error


def to_call_failed(error: RequestNotExecuted, server: str) -> CallFailed:
    return CallFailed(f"The server {server!r} {error}. Nothing was run.")


def _describe_restart(config: ServerConfig) -> str:
    return "It is being restarted." if config.restart else "The next call restarts it."


MAX_ROUNDS: Final = 20

SendRound = Callable[[JsonObject], Awaitable[UpstreamAnswer]]


async def run_rounds(
    send_round: SendRound,
    params: JsonObject,
    upstream_request: UpstreamRequest,
    server: str,
    list_roots: ListRoots,
) -> UpstreamAnswer:
    """The result that the last round brings. Raises `CallFailed`."""
    request = params
    for _ in range(MAX_ROUNDS):
        answer = await send_round(request)
        if isinstance(answer, ProtocolError) or answer.get("resultType") != "input_required":
            return answer
        if not answer.get("inputRequests") and "requestState" not in answer:
            raise CallFailed(f"The server {server!r} wants to ask something and does not say what.")
        more: JsonObject = {
            "inputResponses": await _collect_responses(answer, upstream_request, server, list_roots)
        }
        if "requestState" in answer:
            more["requestState"] = answer["requestState"]
        request = {**params, **more}
    raise CallFailed(f"The server {server!r} asked in more than {MAX_ROUNDS} rounds; it was left.")


async def _collect_responses(
    answer: JsonObject, upstream_request: UpstreamRequest, server: str, list_roots: ListRoots
) -> JsonObject:
    asked = filter_objects(answer.get("inputRequests"))
    inquiries = {key: _parse_server_request(server, each) for key, each in asked.items()}
    client = upstream_request.bridge.client
    forward_roots = not client.is_live and "roots" in client.capabilities
    own = {key for key, each in inquiries.items() if each.method == ROOTS and not forward_roots}
    put = {key: each for key, each in inquiries.items() if key not in own}
    try:
        answers: JsonObject = (
            {**await upstream_request.ask_all(put, client.early_responses)} if put else {}
        )
    except ClientRequestError as failure:
        if not all(each.method == ELICITATION for each in put.values()) or _is_undeclared(failure):
            raise CallFailed(
                f"The server {server!r} has a question that cannot be answered: {failure.message}"
            ) from failure
        answers = {key: dict(CANCELLED) for key in put}
    return {key: {"roots": [*list_roots()]} if key in own else answers[key] for key in inquiries}


def _is_undeclared(failure: ClientRequestError) -> bool:
    return failure.code == -32601


def _parse_server_request(server: str, request: JsonObject) -> ServerRequest:
    method, params = request.get("method"), request.get("params")
    return ServerRequest(server, str(method), params if isinstance(params, dict) else {})
