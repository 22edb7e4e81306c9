"""Forwarding of one client request to one upstream server."""

import secrets
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from mcp_types import INTERNAL_ERROR

from mcp_dispatch.journal.records import build_request_record
from mcp_dispatch.model.calls import PreHookResult
from mcp_dispatch.model.client import InputRequired, Retry
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.pipeline.hook_env import HookClientBridge
from mcp_dispatch.pipeline.pending import PendingRequest
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.server.backend import Backend
from mcp_dispatch.server.client import WireClient, run_until_disconnect
from mcp_dispatch.server.sessions import ClientSessions
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.requests.request import resume_request
from mcp_dispatch.upstream.requests.send import RequestSpec
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.wire import sdk
from mcp_dispatch.wire.sdk import MCPError

ProxyOutcome = JsonObject | ProtocolError | InputRequired

_GATEWAY_PARAMS: Final = frozenset({"_meta", "inputResponses", "requestState"})
"""Parameters that are handled here and not forwarded."""


class UpstreamProxy:
    """Forwards requests other than `tools/call` and records them in the journal."""

    def __init__(self, backend: Backend, sessions: ClientSessions) -> None:
        self._backend = backend
        self._sessions = sessions

    async def forward(
        self, ctx: sdk.Context, server: Supervisor, overrides: JsonObject | None = None
    ) -> JsonObject:
        """Return the upstream's result. `overrides` replace parameters of the client.

        A name is overridden, for example, because the upstream knows the prompt by another one.
        """
        scope = self._sessions.find_scope(ctx)
        params = {
            key: value for key, value in (ctx.params or {}).items() if key not in _GATEWAY_PARAMS
        }
        send = partial(self._send, ctx, server, scope, params, overrides or {})
        started, clock = time.time(), time.monotonic()
        outcome: ProxyOutcome = ProtocolError(INTERNAL_ERROR, "cancelled")
        try:
            outcome = await run_until_disconnect(sdk.get_request_ended(ctx), send)
        except CallFailed as failure:
            outcome = ProtocolError(INTERNAL_ERROR, str(failure))
        finally:
            record = build_request_record(
                id=secrets.token_hex(8),
                method=ctx.method,
                server=server.name,
                params=params,
                outcome=outcome,
                scope=scope.id,
                started=started,
                seconds=time.monotonic() - clock,
            )
            await self._backend.dispatcher.services.journal.record(record)
        if isinstance(outcome, ProtocolError):
            raise MCPError(outcome.code, outcome.message, outcome.data)
        if isinstance(outcome, InputRequired):
            pending = PendingRequest(outcome.continuation, PreHookResult())
            state = scope.pending_requests.add([ctx.method, params], pending)
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
        bridge = HookClientBridge(
            scope.id, WireClient(ctx), scope=scope, services=self._backend.dispatcher.services
        )
        progress = _create_progress_sender(ctx)
        retry = _pop_retry(ctx, scope, client_params)
        if retry is not None:
            return await resume_request(retry, bridge, progress)
        params: JsonObject = {**client_params, **overrides}
        request = RequestSpec(ctx.method, params, ctx.method, sdk.get_raw_meta(ctx), progress)
        return await server.send(request, bridge)


def build_input_required(requests: JsonObject, state: str) -> JsonObject:
    return {"resultType": "input_required", "inputRequests": requests, "requestState": state}


def read_input_responses(params: Mapping[str, Any]) -> JsonObject:
    responses: Json = params.get("inputResponses")
    return responses if isinstance(responses, dict) else {}


def _pop_retry(ctx: sdk.Context, scope: Scope, client_params: JsonObject) -> Retry | None:
    params = ctx.params or {}
    state = params.get("requestState")
    if not isinstance(state, str):
        return None
    pending = scope.pending_requests.pop(state, [ctx.method, client_params])
    if pending is None:
        return None
    return Retry(pending.continuation, read_input_responses(params))


def _create_progress_sender(ctx: sdk.Context) -> Progress | None:
    if "progressToken" not in sdk.get_raw_meta(ctx):
        return None
    return partial(sdk.send_progress, ctx)
