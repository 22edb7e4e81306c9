"""A request that goes to one server behind us, and its answer on the way back."""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from mcp_dispatch.model.calls import PreHookResult
from mcp_dispatch.model.client import InputRequired, Retry
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.pipeline.pending import PendingRequest
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.server.backend import Backend
from mcp_dispatch.server.client import WireClient, run_until_disconnect
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.requests.request import resume_request
from mcp_dispatch.upstream.requests.send import RequestSpec
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.wire import sdk

ProxyOutcome = JsonObject | ProtocolError | InputRequired

_GATEWAY_PARAMS = frozenset({"_meta", "inputResponses", "requestState"})


class UpstreamProxy:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def forward(
        self, ctx: sdk.Context, server: Supervisor, overrides: JsonObject | None = None
    ) -> JsonObject:
        """The server's answer to the request, in which `changes` stand for the client's own words:
        the name that the server knows, for one."""
        scope = self._backend.find_scope(ctx)
        said = {
            key: value for key, value in (ctx.params or {}).items() if key not in _GATEWAY_PARAMS
        }
        answer = partial(self._send, ctx, server, scope, said, overrides or {})
        started, clock = time.time(), time.monotonic()
        outcome: ProxyOutcome = ProtocolError(INTERNAL_ERROR, "cancelled")
        try:
            outcome = await run_until_disconnect(sdk.get_request_ended(ctx), answer)
        except CallFailed as failure:
            outcome = ProtocolError(INTERNAL_ERROR, str(failure))
        finally:
            await self._backend.dispatcher.record_proxied_request(
                *(secrets.token_hex(8), ctx.method, server.name, said, outcome),
                scope=scope,
                started=started,
                seconds=time.monotonic() - clock,
            )
        if isinstance(outcome, ProtocolError):
            raise MCPError(outcome.code, outcome.message, outcome.data)
        if isinstance(outcome, InputRequired):
            state = scope.pending_requests.add(
                [ctx.method, said], PendingRequest(outcome.continuation, PreHookResult())
            )
            return build_input_required(outcome.input_requests, state)
        return outcome

    async def _send(
        self,
        ctx: sdk.Context,
        server: Supervisor,
        scope: Scope,
        client_params: JsonObject,
        overrides: JsonObject,
    ) -> ProxyOutcome:
        respondent = self._backend.dispatcher.build_client_bridge(scope, WireClient(ctx))
        progress = _create_progress_sender(ctx)
        resumed = _pop_retry(ctx, scope, client_params)
        if resumed is not None:
            return await resume_request(resumed, respondent, progress)
        params: JsonObject = {**client_params, **overrides}
        asked = RequestSpec(ctx.method, params, ctx.method, sdk.get_raw_meta(ctx), progress)
        return await server.send(asked, respondent)


def build_input_required(requests: JsonObject, state: str) -> JsonObject:
    return {"resultType": "input_required", "inputRequests": requests, "requestState": state}


def read_input_responses(params: Mapping[str, Any]) -> JsonObject:
    responses: Json = params.get("inputResponses")
    return responses if isinstance(responses, dict) else {}


def _pop_retry(ctx: sdk.Context, scope: Scope, client_params: JsonObject) -> Retry | None:
    state = (ctx.params or {}).get("requestState")
    if not isinstance(state, str):
        return None
    waiting = scope.pending_requests.pop(state, [ctx.method, client_params])
    return (
        Retry(waiting.continuation, read_input_responses(ctx.params or {}))
        if waiting is not None
        else None
    )


def _create_progress_sender(ctx: sdk.Context) -> Progress | None:
    if "progressToken" not in sdk.get_raw_meta(ctx):
        return None
    return cast(Callable[[JsonObject], Awaitable[None]], partial(sdk.send_progress, ctx))
