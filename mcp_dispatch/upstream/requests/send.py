"""Sends requests to one server: each at most once, with failures worded for the model."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from mcp_dispatch.model.client import ClientBridge, ClientRequestError, InputRequired
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.errors import CallFailed, ConnectionLost, RequestLost, RequestNotExecuted
from mcp_dispatch.upstream.lifecycle import ConnectionLease, Lifecycle
from mcp_dispatch.upstream.requests.deadline import IdleTimeout
from mcp_dispatch.upstream.requests.open_calls import OpenCalls
from mcp_dispatch.upstream.requests.relay import Relay
from mcp_dispatch.upstream.requests.request import (
    SpawnTask,
    UpstreamAnswer,
    UpstreamRequest,
    filter_objects,
)
from mcp_dispatch.upstream.requests.server_requests import (
    CANCELLED,
    ELICITATION,
    ROOTS,
    ServerRequest,
)

MAX_ROUNDS: Final = 20

_UNDECLARED: Final = -32601
_NOT_REPEATED: Final = (
    "The call was not repeated: check whether it took effect before you try again."
)


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request to a server. `label` names what is requested in messages for the model."""

    method: str
    params: JsonObject
    label: str
    meta: JsonObject | None = None
    progress: Progress | None = None
    definition: JsonObject | None = None
    """The definition of the tool that the call was permitted for."""


class RequestSender:
    """Sends the requests of all clients to one server."""

    def __init__(
        self, config: ServerConfig, lifecycle: Lifecycle, relay: Relay, spawn_task: SpawnTask
    ) -> None:
        self._config = config
        self._lifecycle = lifecycle
        self._relay = relay
        self._spawn_task = spawn_task
        self.open_calls = OpenCalls(config)

    async def send(
        self, spec: RequestSpec, bridge: ClientBridge, *, exclusive: bool = False
    ) -> UpstreamAnswer | InputRequired:
        """Return the server's answer, or its requests to the client. Raises `CallFailed`."""
        request = UpstreamRequest(bridge, spec.progress)
        send = partial(self._send_rounds, spec, exclusive)
        return await request.run(send, self._spawn_task)

    async def _send_rounds(
        self, spec: RequestSpec, exclusive: bool, request: UpstreamRequest
    ) -> UpstreamAnswer:
        async with self.open_calls.admit(exclusive=exclusive):
            return await run_rounds(
                partial(self._send_round, spec, request),
                spec.params,
                request,
                self._config.name,
                self._relay.list_roots,
            )

    async def _send_round(
        self, spec: RequestSpec, request: UpstreamRequest, params: JsonObject
    ) -> UpstreamAnswer:
        """Send once more over a new connection if the server has certainly not executed it."""
        lease = await self._lifecycle.acquire_lease()
        try:
            return await self._send_over(lease, spec, request, params)
        except RequestNotExecuted as error:
            if not await lease.has_ended(self._lifecycle.timing.connect_wait):
                raise self._to_call_failed(error) from error
        lease = await self._lifecycle.acquire_lease()
        try:
            return await self._send_over(lease, spec, request, params)
        except RequestNotExecuted as error:
            raise self._to_call_failed(error) from error

    async def _send_over(
        self,
        lease: ConnectionLease,
        spec: RequestSpec,
        request: UpstreamRequest,
        params: JsonObject,
    ) -> UpstreamAnswer:
        """Raises `CallFailed`, and `RequestNotExecuted` if the request may be sent once more."""
        self._check_definition(spec)
        config, label = self._config, spec.label
        try:
            return await lease.connection.request(
                spec.method,
                params,
                meta=spec.meta,
                progress=None if spec.progress is None else request.report_progress,
                upstream_request=request,
                timeout=config.timeout,
                idle_timeout=config.idle_timeout,
            )
        except IdleTimeout as error:
            raise CallFailed(
                f"The server {config.name!r} reported no progress of {label!r} for "
                f"{config.idle_timeout:g} s and was told to stop; the call may have taken "
                'effect. A longer "idleTimeout" (in milliseconds) can be set in its entry under '
                '"mcpServers".'
            ) from error
        except TimeoutError as error:
            raise CallFailed(
                f"The server {config.name!r} did not answer {label!r} within "
                f"{config.timeout:g} s and was told to stop; the call may have taken effect. "
                'A longer "timeout" (in milliseconds) can be set in its entry under "mcpServers".'
            ) from error
        except ConnectionLost as error:
            await lease.has_ended(self._lifecycle.timing.connect_wait)
            restart = "It is being restarted." if config.restart else "The next call restarts it."
            raise CallFailed(
                f"The server {config.name!r} {lease.end_reason} while it ran {label!r}. {restart} "
                f"{_NOT_REPEATED}"
            ) from error
        except RequestLost as error:
            raise CallFailed(
                f"The server {config.name!r} {error} while it ran {label!r}. {_NOT_REPEATED}"
            ) from error

    def _check_definition(self, spec: RequestSpec) -> None:
        """Raise `CallFailed` if the tool has changed since the call was permitted."""
        permitted, tools = spec.definition, self._lifecycle.tools
        if permitted is None or any(each is permitted for each in tools):
            return
        named = [each for each in tools if each.get("name") == permitted.get("name")]
        if named and all(repr(each) != repr(permitted) for each in named):
            raise CallFailed(
                f"The server {self._config.name!r} has changed what {spec.label!r} is since this "
                "call was judged. Nothing was sent. Look at the tool's definition again before "
                "you call it."
            )

    def _to_call_failed(self, error: RequestNotExecuted) -> CallFailed:
        return CallFailed(f"The server {self._config.name!r} {error}. Nothing was run.")


SendRound = Callable[[JsonObject], Awaitable[UpstreamAnswer]]


async def run_rounds(
    send_round: SendRound,
    params: JsonObject,
    request: UpstreamRequest,
    server: str,
    list_roots: Callable[[], list[JsonObject]],
) -> UpstreamAnswer:
    """Send a request, and send it again with answers as often as the server requires input.

    Return the result of the last round. Raises `CallFailed`.
    """
    round_params = params
    for _ in range(MAX_ROUNDS):
        answer = await send_round(round_params)
        if isinstance(answer, ProtocolError) or answer.get("resultType") != "input_required":
            return answer
        if not answer.get("inputRequests") and "requestState" not in answer:
            raise CallFailed(f"The server {server!r} wants to ask something and does not say what.")
        more: JsonObject = {
            "inputResponses": await _collect_responses(answer, request, server, list_roots)
        }
        if "requestState" in answer:
            more["requestState"] = answer["requestState"]
        round_params = {**params, **more}
    raise CallFailed(f"The server {server!r} asked in more than {MAX_ROUNDS} rounds; it was left.")


async def _collect_responses(
    answer: JsonObject,
    request: UpstreamRequest,
    server: str,
    list_roots: Callable[[], list[JsonObject]],
) -> JsonObject:
    """Answer requests for roots here, unless the client can, and put the others to the client."""
    input_requests = {
        key: _parse_server_request(server, each)
        for key, each in filter_objects(answer.get("inputRequests")).items()
    }
    client = request.bridge.client
    forward_roots = not client.is_live and "roots" in client.capabilities
    own = {
        key for key, each in input_requests.items() if each.method == ROOTS and not forward_roots
    }
    forwarded = {key: each for key, each in input_requests.items() if key not in own}
    try:
        answers: JsonObject = (
            {**await request.ask_all(forwarded, client.early_responses)} if forwarded else {}
        )
    except ClientRequestError as error:
        only_elicitations = all(each.method == ELICITATION for each in forwarded.values())
        if not only_elicitations or error.code == _UNDECLARED:
            raise CallFailed(
                f"The server {server!r} has a question that cannot be answered: {error.message}"
            ) from error
        answers = {key: dict(CANCELLED) for key in forwarded}
    return {
        key: {"roots": [*list_roots()]} if key in own else answers[key] for key in input_requests
    }


def _parse_server_request(server: str, request: JsonObject) -> ServerRequest:
    method, params = request.get("method"), request.get("params")
    return ServerRequest(server, str(method), params if isinstance(params, dict) else {})
