"""A request that goes to one server behind us, and its answer on the way back."""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from mcp_dispatch.model.calls import Review
from mcp_dispatch.model.client import Resumed, Unfinished
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.pipeline.pending import Waiting
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.server.backend import Backstage
from mcp_dispatch.server.client import WireClient, while_awaited
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.requests.request import resume
from mcp_dispatch.upstream.requests.send import Asked
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.wire import sdk

Answer = JsonObject | ProtocolError | Unfinished

_OURS = frozenset({"_meta", "inputResponses", "requestState"})


class Passage:
    def __init__(self, backstage: Backstage) -> None:
        self._backstage = backstage

    async def take(
        self, ctx: sdk.Context, server: Supervisor, changes: JsonObject | None = None
    ) -> JsonObject:
        """The server's answer to the request, in which `changes` stand for the client's own words:
        the name that the server knows, for one."""
        scope = self._backstage.scope_of(ctx)
        said = {key: value for key, value in (ctx.params or {}).items() if key not in _OURS}
        answer = partial(self._answer, ctx, server, scope, said, changes or {})
        started, clock = time.time(), time.monotonic()
        outcome: Answer = ProtocolError(INTERNAL_ERROR, "cancelled")
        try:
            outcome = await while_awaited(sdk.request_over(ctx), answer)
        except CallFailed as failure:
            outcome = ProtocolError(INTERNAL_ERROR, str(failure))
        finally:
            await self._backstage.dispatcher.note(
                *(secrets.token_hex(8), ctx.method, server.name, said, outcome),
                scope=scope,
                started=started,
                seconds=time.monotonic() - clock,
            )
        if isinstance(outcome, ProtocolError):
            raise MCPError(outcome.code, outcome.message, outcome.data)
        if isinstance(outcome, Unfinished):
            state = scope.rests.park([ctx.method, said], Waiting(outcome.rest, Review()))
            return input_required(outcome.input_requests, state)
        return outcome

    async def _answer(
        self,
        ctx: sdk.Context,
        server: Supervisor,
        scope: Scope,
        said: JsonObject,
        changes: JsonObject,
    ) -> Answer:
        respondent = self._backstage.dispatcher.respondent(scope, WireClient(ctx))
        progress = _progress(ctx)
        resumed = _resumed(ctx, scope, said)
        if resumed is not None:
            return await resume(resumed, respondent, progress)
        params: JsonObject = {**said, **changes}
        asked = Asked(ctx.method, params, ctx.method, sdk.raw_meta(ctx), progress)
        return await server.carry(asked, respondent)


def input_required(requests: JsonObject, state: str) -> JsonObject:
    return {"resultType": "input_required", "inputRequests": requests, "requestState": state}


def responses_of(params: Mapping[str, Any]) -> JsonObject:
    responses: Json = params.get("inputResponses")
    return responses if isinstance(responses, dict) else {}


def _resumed(ctx: sdk.Context, scope: Scope, said: JsonObject) -> Resumed | None:
    state = (ctx.params or {}).get("requestState")
    if not isinstance(state, str):
        return None
    waiting = scope.rests.take(state, [ctx.method, said])
    return Resumed(waiting.rest, responses_of(ctx.params or {})) if waiting is not None else None


def _progress(ctx: sdk.Context) -> Progress | None:
    if "progressToken" not in sdk.raw_meta(ctx):
        return None
    return cast(Callable[[JsonObject], Awaitable[None]], partial(sdk.send_progress, ctx))
