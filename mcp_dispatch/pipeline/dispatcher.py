"""The way of one call, from its arrival to its result: every stage, in order, on one page."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.journal.records import (
    build_call_record,
    build_request_record,
    build_shrunk_record,
)
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.approval import Caller
from mcp_dispatch.model.calls import (
    CheckedCall,
    Completed,
    Executed,
    Outcome,
    PreHookResult,
    ReviewedCall,
    Rewrite,
    ToolCall,
)
from mcp_dispatch.model.client import Client, ClientBridge, InputRequired, release_nothing
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import CALL_TOOL
from mcp_dispatch.model.outcome import Cancelled, CancelReason, ProtocolError, Refusal, Suspended
from mcp_dispatch.model.tools import CallContext, Tool
from mcp_dispatch.pipeline.batch import CallRun
from mcp_dispatch.pipeline.hook_env import HookContextFactory
from mcp_dispatch.pipeline.pending import PendingRequest
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.stages.after_batch import run_batch_hooks
from mcp_dispatch.pipeline.stages.authorize import AuthorizeEnv, authorize
from mcp_dispatch.pipeline.stages.check import check
from mcp_dispatch.pipeline.stages.execute import execute
from mcp_dispatch.pipeline.stages.finish import FinishEnv, finish, shrink
from mcp_dispatch.pipeline.stages.lookup import lookup
from mcp_dispatch.pipeline.stages.pre_hooks import explain_rewrite_refusal, run_pre_hooks
from mcp_dispatch.pipeline.stages.validate import validate
from mcp_dispatch.policy.policy import LazyHiddenPaths, Policy
from mcp_dispatch.registry.registry import ToolRegistry
from mcp_dispatch.results.limits import ResultLimits
from mcp_dispatch.results.size import measure_result
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.tools.call_tool import unwrap_call_tool

JOURNAL_TIMEOUT_SECONDS = 5.0
INTERNAL_ERROR = ProtocolError(-32603, "Internal error")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What settings and servers make of the world now; replaced whole when they change."""

    registry: ToolRegistry
    hooks: Hooks
    policy: Policy
    limits: ResultLimits = field(default_factory=ResultLimits)
    is_deferred: Callable[[Tool], bool] = lambda _: False
    """Whether a tool is listed only for those who have found it."""


class Dispatcher:
    def __init__(
        self,
        get_snapshot: Callable[[], Snapshot],
        approver: Approver,
        results: ResultStore,
        journal: Journal,
    ) -> None:
        self._get_snapshot = get_snapshot
        self._approver = approver
        self._results = results
        self._journal = journal
        self._hook_contexts = HookContextFactory(results, journal)

    def unwrap_call_tool(self, call: ToolCall) -> ToolCall:
        """What is inside a `call_tool`, where that is offered and no rule takes it away."""
        live = self._get_snapshot()
        denied = live.policy.find_tool_deny(CALL_TOOL, CALL_TOOL, None)
        return call if denied or live.registry.find(CALL_TOOL) is None else unwrap_call_tool(call)

    async def dispatch(
        self, call: ToolCall, scope: Scope, caller: Caller, run: CallRun | None = None
    ) -> Outcome:
        """`member` is the call's place in its batch: by default in the one of this moment."""
        call = self.unwrap_call_tool(call)
        run = run or scope.batch_window.join(call)
        started, clock = time.time(), time.monotonic()
        outcome: Outcome = INTERNAL_ERROR  # stands where a bug of ours flies past
        try:
            with run.cancel_scope:
                outcome = await self._run(call, scope, caller, run)
            if run.cancel_scope.cancelled_caught and run.cancelled is not None:
                outcome = run.cancelled
        except Refused as refused:
            outcome = refused.refusal
        except anyio.get_cancelled_exc_class():
            outcome = Cancelled(CancelReason.USER_INTERRUPTED)
            raise
        finally:
            if call.call_retry is not None:
                call.call_retry.retry.continuation.drop()  # unless the tool went on with it
            run.end(outcome)
            await self._record_call(call, outcome, scope, started, time.monotonic() - clock)
        around = partial(self._hook_contexts.create_for_session, scope, self._get_policy())
        run.outcome = await run_batch_hooks(self._get_snapshot().hooks, run, outcome, scope, around)
        return run.outcome

    async def _run(self, call: ToolCall, scope: Scope, caller: Caller, run: CallRun) -> Outcome:
        live = self._get_snapshot()
        resolved = lookup(live.registry, call, live.is_deferred, scope.activated_tools)
        valid = validate(resolved, call.arguments)
        run.set_tool(resolved.tool, valid.sharing)
        await self._begin_session(scope)
        # Held through post-hooks: a formatter must finish before the next edit.
        # A server may do one thing at a time: who brings it answers must not queue behind others.
        later = call.call_retry is not None
        async with scope.admission.acquire_slot(valid.sharing, deferred=later) as slot:
            run.admit(valid.sharing)
            await caller.wait_until_ready()
            hooks = self._get_snapshot().hooks
            hides = LazyHiddenPaths(self._get_policy(), scope.cwd)
            around, progress = self._hook_contexts.create_for_call(
                scope, self._get_policy(), call.id, caller.progress
            )
            context = CallContext(
                *(call.id, scope, progress, call.meta, hides),
                client_bridge=self.build_client_bridge(scope, caller.client, slot.release),
                retry=call.call_retry.retry if call.call_retry else None,
            )

            async def check_rewrite(checked: CheckedCall, rewrite: Rewrite) -> CheckedCall:
                with explain_rewrite_refusal(rewrite):
                    valid = validate(checked.valid.resolved, rewrite.arguments)
                    again = await check(valid, context)
                await slot.change_sharing(again.valid.sharing)
                run.admit(again.valid.sharing)
                return again

            async def check_again(reviewed: ReviewedCall) -> ReviewedCall:
                valid = reviewed.checked.valid
                again = await check(validate(valid.resolved, valid.arguments), context)
                return replace(reviewed, checked=again)

            checked = await check(valid, context)
            reviewed = await run_pre_hooks(hooks, checked, around, check_rewrite)
            bench = AuthorizeEnv(
                *(self._get_policy, self._approver, scope, caller, slot, check_again),
                *(hooks, around, check_rewrite),
            )
            permitted = await authorize(reviewed, bench)
            if isinstance(permitted, Suspended):
                return permitted
            delivery = FinishEnv.prepare(
                self._results,
                self._get_snapshot().limits,
                scope.get_budget(run.batch),
                scope,
                run.sharing,
            )
            run.mark_tool_started()
            executed = await execute(permitted, context)
            if isinstance(executed, InputRequired):
                return _suspend(call, executed, permitted.reviewed.review, scope)
            if not isinstance(executed, Executed):
                return executed
            await slot.ensure_acquired()
            run.record_result(executed)
            return await finish(delivery, hooks, executed, scope, around)

    def max_result_chars(self, call: ToolCall) -> int:
        """In characters, as far as they count for what calls may deliver together."""
        tool = self._get_snapshot().registry.find(call.name)
        limit = self._get_snapshot().limits.find_limit(tool) if tool else None
        return limit.chars or 0 if limit is not None and limit.uses_batch_budget else 0

    async def shrink(self, completed: Completed, scope: Scope) -> Completed:
        """The result again, kept on disk because those delivered with it leave no room for it."""
        shrunk = await shrink(self._results, self._get_snapshot().limits, completed, scope)
        await self._journal.record(build_shrunk_record(shrunk, scope=scope.id, now=time.time()))
        return shrunk

    def build_client_bridge(
        self, scope: Scope, client: Client, release_slot: Callable[[], None] = release_nothing
    ) -> ClientBridge:
        """Who answers a server's questions while it works on a request of this client's."""
        hooks = self._get_snapshot().hooks
        around = self._hook_contexts.create_for_session(scope, self._get_policy())

        async def answer_by_hook(server: str, params: JsonObject) -> JsonObject | None:
            return await hooks.run_elicitation(server, params, around)

        async def review_answer(server: str, params: JsonObject, answer: JsonObject) -> JsonObject:
            return await hooks.run_elicitation_result(server, params, answer, around)

        return ClientBridge(scope.id, client, answer_by_hook, review_answer, release_slot)

    async def record_proxied_request(
        self,
        id: str,
        method: str,
        server: str,
        params: JsonObject,
        outcome: JsonObject | ProtocolError | InputRequired,
        *,
        scope: Scope,
        started: float,
        seconds: float,
    ) -> None:
        """A request that went to a server as it was, for the journal."""
        entry = build_request_record(
            *(id, method, server, params, outcome), scope=scope.id, started=started, seconds=seconds
        )
        with anyio.move_on_after(JOURNAL_TIMEOUT_SECONDS, shield=True):
            await self._journal.record(entry)

    def _get_policy(self) -> Policy:
        return self._get_snapshot().policy

    async def _begin_session(self, scope: Scope) -> None:
        if scope.session_started is None:
            around = self._hook_contexts.create_for_session(scope, self._get_policy())
            scope.session_started = self._get_snapshot().hooks.begin_session(around)
        if not scope.session_started.is_set():
            await scope.session_started.wait()

    async def end_session(self, scope: Scope) -> None:
        """Hooks are told that nothing more comes from this scope, if anything ever came."""
        if scope.session_started is not None:
            around = self._hook_contexts.create_for_session(scope, self._get_policy())
            await self._get_snapshot().hooks.run_session_end(around)

    async def _record_call(
        self, call: ToolCall, outcome: Outcome, scope: Scope, started: float, seconds: float
    ) -> None:
        tool = self._get_snapshot().registry.find(call.name)
        entry = build_call_record(
            call,
            outcome,
            scope=scope.id,
            started=started,
            seconds=seconds,
            tool=tool.rule_name if tool else None,
            decision=outcome.decision if isinstance(outcome, Refusal) else None,
            result_chars=measure_result(outcome.wire) if isinstance(outcome, Completed) else None,
        )
        with anyio.move_on_after(JOURNAL_TIMEOUT_SECONDS, shield=True):
            await self._journal.record(entry)


def _suspend(
    call: ToolCall, input_required: InputRequired, review: PreHookResult, scope: Scope
) -> Suspended:
    request: JsonObject = {"name": call.name, "arguments": call.arguments}
    state = scope.pending_requests.add(request, PendingRequest(input_required.continuation, review))
    return Suspended(input_required.input_requests, state)
