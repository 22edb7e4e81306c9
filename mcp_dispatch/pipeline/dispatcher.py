"""The stages of one call, in order, from the request to the outcome."""

import time
from dataclasses import dataclass

import anyio

from mcp_dispatch.hooks.events import HookEventName
from mcp_dispatch.journal.records import build_call_record
from mcp_dispatch.model.approval import Caller
from mcp_dispatch.model.calls import Completed, Executed, Outcome, ToolCall
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.names import CALL_TOOL
from mcp_dispatch.model.outcome import Cancelled, CancelReason, ProtocolError, Suspended
from mcp_dispatch.pipeline.batch import CallRun, CallState
from mcp_dispatch.pipeline.call_env import CallEnv
from mcp_dispatch.pipeline.hook_env import begin_session
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services
from mcp_dispatch.pipeline.stages.after_batch import run_batch_hooks
from mcp_dispatch.pipeline.stages.authorize import authorize
from mcp_dispatch.pipeline.stages.check import check
from mcp_dispatch.pipeline.stages.execute import execute
from mcp_dispatch.pipeline.stages.finish import finish
from mcp_dispatch.pipeline.stages.lookup import lookup
from mcp_dispatch.pipeline.stages.pre_hooks import run_pre_hooks
from mcp_dispatch.pipeline.stages.validate import validate
from mcp_dispatch.results.size import measure_result
from mcp_dispatch.tools.call_tool import unwrap_call_tool

INTERNAL_ERROR = ProtocolError(-32603, "Internal error")


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Runs calls. Within a scope, shared calls that follow one another run side by side, an
    exclusive call runs alone, and calls start in order of arrival."""

    services: Services

    def unwrap_call_tool(self, call: ToolCall) -> ToolCall:
        """Return the call inside a `call_tool`, if `call_tool` is offered and no rule denies it."""
        if call.name != CALL_TOOL:
            return call
        snapshot = self.services.get_snapshot()
        denied = snapshot.policy.find_tool_deny(CALL_TOOL, CALL_TOOL, None)
        offered = snapshot.registry.find(CALL_TOOL) is not None
        return unwrap_call_tool(call) if offered and not denied else call

    async def dispatch(self, call: ToolCall, scope: Scope, caller: Caller) -> Outcome:
        """Run one call, in a batch with the calls that arrive in the same window of time."""
        run = scope.batch_window.join(call)
        outcome = await self.dispatch_run(run, scope, caller)
        run.set_state(CallState.DELIVERED)
        return outcome

    async def dispatch_run(self, run: CallRun, scope: Scope, caller: Caller) -> Outcome:
        """Run a call that has joined a batch, and record its outcome there and in the journal."""
        started, clock = time.time(), time.monotonic()
        outcome: Outcome = INTERNAL_ERROR  # recorded if a bug of ours raises
        try:
            with run.cancel_scope:
                outcome = await self._run(run, scope, caller)
            if run.cancel_scope.cancelled_caught and run.cancelled is not None:
                outcome = run.cancelled
        except Refused as refused:
            outcome = refused.refusal
        except anyio.get_cancelled_exc_class():
            outcome = Cancelled(CancelReason.USER_INTERRUPTED)
            raise
        finally:
            if run.call.call_retry is not None:
                run.call.call_retry.retry.continuation.drop()  # unless the tool has used it
            run.end(outcome)
            await self._record(run.call, outcome, scope, started, time.monotonic() - clock)
        if HookEventName.POST_TOOL_BATCH in self.services.get_snapshot().hooks.events:
            run.outcome = outcome = await run_batch_hooks(self.services, run, outcome, scope)
        return outcome

    async def _run(self, run: CallRun, scope: Scope, caller: Caller) -> Outcome:
        call = run.call
        resolved = lookup(self.services.get_snapshot(), call, scope)
        valid = validate(resolved, call.arguments)
        run.set_tool(resolved.tool, valid.sharing)
        if scope.session_started is None or not scope.session_started.is_set():
            await begin_session(self.services, scope)
        # A retried call brings answers to a server that may handle one request at a time: it must
        # not queue behind calls that wait for that server.
        deferred = call.call_retry is not None
        # The slot is held through post-hooks: a formatter must finish before the next edit.
        async with scope.admission.acquire_slot(valid.sharing, deferred=deferred) as slot:
            run.admit(valid.sharing)
            await caller.wait_until_ready()
            env = CallEnv(run, slot, scope, caller, self.services)
            checked = await check(valid, env.context)
            reviewed = await run_pre_hooks(checked, env)
            permitted = await authorize(reviewed, env)
            if isinstance(permitted, Suspended):
                return permitted
            files_before = env.snapshot_files()
            executed = await execute(permitted, env)
            if not isinstance(executed, Executed):
                return executed
            return await finish(executed, files_before, env)

    async def _record(
        self, call: ToolCall, outcome: Outcome, scope: Scope, started: float, seconds: float
    ) -> None:
        tool = self.services.get_snapshot().registry.find(call.name)
        record = build_call_record(
            call,
            outcome,
            scope=scope.id,
            started=started,
            seconds=seconds,
            tool=tool.rule_name if tool else None,
            result_chars=measure_result(outcome.wire) if isinstance(outcome, Completed) else None,
        )
        await self.services.journal.record(record)
