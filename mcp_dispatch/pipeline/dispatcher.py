"""The way of one call, from its arrival to its result: every stage, in order, on one page."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.journal.records import passage_record, record_of, shrunk_record
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.approval import Caller
from mcp_dispatch.model.calls import (
    CheckedCall,
    Completed,
    Executed,
    Outcome,
    Review,
    ReviewedCall,
    Rewrite,
    ToolCall,
)
from mcp_dispatch.model.client import Client, Respondent, Unfinished, nothing_held
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import CALL_TOOL
from mcp_dispatch.model.outcome import Cancelled, CancelReason, ProtocolError, Refusal, Suspended
from mcp_dispatch.model.tools import CallContext, Tool
from mcp_dispatch.pipeline.batch import Member
from mcp_dispatch.pipeline.hook_env import Surroundings
from mcp_dispatch.pipeline.pending import Waiting
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.stages.after_batch import after_batch
from mcp_dispatch.pipeline.stages.authorize import Bench, authorize
from mcp_dispatch.pipeline.stages.check import check
from mcp_dispatch.pipeline.stages.execute import execute
from mcp_dispatch.pipeline.stages.finish import Delivery, finish, shrink
from mcp_dispatch.pipeline.stages.lookup import lookup
from mcp_dispatch.pipeline.stages.pre_hooks import blaming, run_pre_hooks
from mcp_dispatch.pipeline.stages.validate import validate
from mcp_dispatch.policy.policy import Hidden, Policy
from mcp_dispatch.registry.registry import Pool
from mcp_dispatch.results.limits import Limits
from mcp_dispatch.results.size import measure
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.tools.call_tool import opened

JOURNAL_SECONDS = 5.0
INTERNAL_ERROR = ProtocolError(-32603, "Internal error")


@dataclass(frozen=True, slots=True)
class Live:
    """What settings and servers make of the world now; replaced whole when they change."""

    pool: Pool
    hooks: Hooks
    policy: Policy
    limits: Limits = field(default_factory=Limits)
    deferred: Callable[[Tool], bool] = lambda _: False
    """Whether a tool is listed only for those who have found it."""


class Dispatcher:
    def __init__(
        self,
        live: Callable[[], Live],
        approver: Approver,
        results: ResultStore,
        journal: Journal,
    ) -> None:
        self._live = live
        self._approver = approver
        self._results = results
        self._journal = journal
        self._surroundings = Surroundings(results, journal)

    def opened(self, call: ToolCall) -> ToolCall:
        """What is inside a `call_tool`, where that is offered and no rule takes it away."""
        live = self._live()
        denied = live.policy.is_hidden(CALL_TOOL, CALL_TOOL, None)
        return call if denied or live.pool.find(CALL_TOOL) is None else opened(call)

    async def dispatch(
        self, call: ToolCall, scope: Scope, caller: Caller, member: Member | None = None
    ) -> Outcome:
        """`member` is the call's place in its batch: by default in the one of this moment."""
        call = self.opened(call)
        member = member or scope.batches.join(call)
        started, clock = time.time(), time.monotonic()
        outcome: Outcome = INTERNAL_ERROR  # stands where a bug of ours flies past
        try:
            with member.scope:
                outcome = await self._run(call, scope, caller, member)
            if member.scope.cancelled_caught and member.cancelled is not None:
                outcome = member.cancelled
        except Refused as refused:
            outcome = refused.refusal
        except anyio.get_cancelled_exc_class():
            outcome = Cancelled(CancelReason.USER_INTERRUPTED)
            raise
        finally:
            if call.resumed is not None:
                call.resumed.resumed.rest.drop()  # unless the tool went on with it
            member.end(outcome)
            await self._record(call, outcome, scope, started, time.monotonic() - clock)
        around = partial(self._surroundings.of_session, scope, self._policy())
        member.outcome = await after_batch(self._live().hooks, member, outcome, scope, around)
        return member.outcome

    async def _run(self, call: ToolCall, scope: Scope, caller: Caller, member: Member) -> Outcome:
        live = self._live()
        resolved = lookup(live.pool, call, live.deferred, scope.activated)
        valid = validate(resolved, call.arguments)
        member.resolve(resolved.tool, valid.sharing)
        await self._begin_session(scope)
        # Held through post-hooks: a formatter must finish before the next edit.
        # A server may do one thing at a time: who brings it answers must not queue behind others.
        later = call.resumed is not None
        async with scope.admission.slot(valid.sharing, later=later) as slot:
            member.admit(valid.sharing)
            await caller.ready()
            hooks = self._live().hooks
            hides = Hidden(self._policy(), scope.cwd)
            around, progress = self._surroundings.of_call(
                scope, self._policy(), call.id, caller.progress
            )
            context = CallContext(
                *(call.id, scope, progress, call.meta, hides),
                respondent=self.respondent(scope, caller.client, slot.give_back),
                resumed=call.resumed.resumed if call.resumed else None,
            )

            async def rewritten(checked: CheckedCall, rewrite: Rewrite) -> CheckedCall:
                with blaming(rewrite):
                    valid = validate(checked.valid.resolved, rewrite.arguments)
                    again = await check(valid, context)
                await slot.become(again.valid.sharing)
                member.admit(again.valid.sharing)
                return again

            async def repeat(reviewed: ReviewedCall) -> ReviewedCall:
                valid = reviewed.checked.valid
                again = await check(validate(valid.resolved, valid.arguments), context)
                return replace(reviewed, checked=again)

            checked = await check(valid, context)
            reviewed = await run_pre_hooks(hooks, checked, around, rewritten)
            bench = Bench(
                *(self._policy, self._approver, scope, caller, slot, repeat),
                *(hooks, around, rewritten),
            )
            permitted = await authorize(reviewed, bench)
            if isinstance(permitted, Suspended):
                return permitted
            delivery = Delivery.prepare(
                self._results,
                self._live().limits,
                scope.budget_of(member.batch),
                scope,
                member.sharing,
            )
            member.begin()
            executed = await execute(permitted, context)
            if isinstance(executed, Unfinished):
                return _suspended(call, executed, permitted.reviewed.review, scope)
            if not isinstance(executed, Executed):
                return executed
            await slot.hold()
            member.ran(executed)
            return await finish(delivery, hooks, executed, scope, around)

    def largest_result(self, call: ToolCall) -> int:
        """In characters, as far as they count for what calls may deliver together."""
        tool = self._live().pool.find(call.name)
        limit = self._live().limits.of(tool) if tool else None
        return limit.chars or 0 if limit is not None and limit.counted else 0

    async def shrink(self, completed: Completed, scope: Scope) -> Completed:
        """The result again, kept on disk because those delivered with it leave no room for it."""
        shrunk = await shrink(self._results, self._live().limits, completed, scope)
        await self._journal.record(shrunk_record(shrunk, scope=scope.id, now=time.time()))
        return shrunk

    def respondent(
        self, scope: Scope, client: Client, let_go: Callable[[], None] = nothing_held
    ) -> Respondent:
        """Who answers a server's questions while it works on a request of this client's."""
        hooks = self._live().hooks
        around = self._surroundings.of_session(scope, self._policy())

        async def foresee(server: str, params: JsonObject) -> JsonObject | None:
            return await hooks.elicitation(server, params, around)

        async def review(server: str, params: JsonObject, answer: JsonObject) -> JsonObject:
            return await hooks.elicitation_result(server, params, answer, around)

        return Respondent(scope.id, client, foresee, review, let_go)

    async def note(
        self,
        id: str,
        method: str,
        server: str,
        said: JsonObject,
        outcome: JsonObject | ProtocolError | Unfinished,
        *,
        scope: Scope,
        started: float,
        seconds: float,
    ) -> None:
        """A request that went to a server as it was, for the journal."""
        entry = passage_record(
            *(id, method, server, said, outcome), scope=scope.id, started=started, seconds=seconds
        )
        with anyio.move_on_after(JOURNAL_SECONDS, shield=True):
            await self._journal.record(entry)

    def _policy(self) -> Policy:
        return self._live().policy

    async def _begin_session(self, scope: Scope) -> None:
        if scope.begun is None:
            around = self._surroundings.of_session(scope, self._policy())
            scope.begun = self._live().hooks.begin_session(around)
        if not scope.begun.is_set():
            await scope.begun.wait()

    async def end_session(self, scope: Scope) -> None:
        """Hooks are told that nothing more comes from this scope, if anything ever came."""
        if scope.begun is not None:
            around = self._surroundings.of_session(scope, self._policy())
            await self._live().hooks.session_ended(around)

    async def _record(
        self, call: ToolCall, outcome: Outcome, scope: Scope, started: float, seconds: float
    ) -> None:
        tool = self._live().pool.find(call.name)
        entry = record_of(
            call,
            outcome,
            scope=scope.id,
            started=started,
            seconds=seconds,
            tool=tool.rule_name if tool else None,
            decision=outcome.decision if isinstance(outcome, Refusal) else None,
            result_chars=measure(outcome.wire) if isinstance(outcome, Completed) else None,
        )
        with anyio.move_on_after(JOURNAL_SECONDS, shield=True):
            await self._journal.record(entry)


def _suspended(call: ToolCall, unfinished: Unfinished, review: Review, scope: Scope) -> Suspended:
    request: JsonObject = {"name": call.name, "arguments": call.arguments}
    state = scope.rests.park(request, Waiting(unfinished.rest, review))
    return Suspended(unfinished.input_requests, state)
