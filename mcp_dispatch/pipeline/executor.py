"""Many calls at once: each with its place in a batch, and for a whole message results in order."""

import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from mcp_dispatch.model.approval import Caller
from mcp_dispatch.model.calls import Completed, Outcome, ToolCall
from mcp_dispatch.model.outcome import CancelReason, Refusal
from mcp_dispatch.pipeline.batch import CallRun, CallState, StateListener
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.results.limits import BatchBudget, select_results_to_replace
from mcp_dispatch.results.size import measure_result

logger = logging.getLogger(__name__)


class ResultPolicy(Protocol):
    """Decides for good how calls that have ended are delivered."""

    def needs_all_results(self, runs: Sequence[CallRun]) -> bool:
        """Whether the results of a whole message could be too much together: then all of them are
        waited for before one is delivered."""
        ...

    async def settle(self, runs: Sequence[CallRun]) -> None:
        """May replace the outcomes, once."""
        ...


class UnlimitedResults:
    """Every result is delivered as the pipeline made it."""

    def needs_all_results(self, runs: Sequence[CallRun]) -> bool:
        return False

    async def settle(self, runs: Sequence[CallRun]) -> None:
        return None


class Executor:
    """Schedules calls by one set of rules, whether each comes by itself or as part of a message.

    Within a scope, shared calls that follow one another run side by side, an exclusive call runs
    alone, and nobody overtakes: who may run now is for the scope's admission to say.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def call(self, call: ToolCall, scope: Scope, caller: Caller) -> Outcome:
        """One call, beside those that arrive in the same window of time."""
        call = self._dispatcher.unwrap_call_tool(call)
        member = scope.batch_window.join(call)
        outcome = await self._dispatcher.dispatch(call, scope, caller, member)
        member.set_state(CallState.DELIVERED)
        return outcome

    def stream(
        self, scope: Scope, task_group: TaskGroup, result_policy: ResultPolicy | None = None
    ) -> "CallStream":
        """The calls of one message; they run in `tasks`."""
        return CallStream(self._dispatcher, scope, task_group, result_policy or UnlimitedResults())


class CallStream:
    """The calls of one message, each begun as soon as it may run, while the message is still being
    written; their results in the order of the calls, each exactly once."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        scope: Scope,
        task_group: TaskGroup,
        result_policy: ResultPolicy,
    ) -> None:
        self._dispatcher = dispatcher
        self._scope = scope
        self._task_group = task_group
        self._result_policy = result_policy
        self._batch = scope.batch_window.create_message_batch()
        self._running = 0
        self._holds_results = False
        self._settled: set[int] = set()
        self._unsettled: list[CallRun] = []
        self._delivered = 0
        self._cancel_cause: tuple[CancelReason, str] | None = None
        self._changed = anyio.Event()

    @property
    def runs(self) -> Sequence[CallRun]:
        """Every call that was added, in order; each tells its state."""
        return self._batch.runs

    @property
    def interruptible(self) -> bool:
        """Whether an interrupt would stop everything that runs now."""
        running = (each for each in self.runs if each.state is CallState.EXECUTING)
        return all(member.interruptible for member in running)

    def add(
        self, call: ToolCall, caller: Caller, on_state_change: StateListener | None = None
    ) -> CallRun:
        """Starts the call, or queues it behind what must end first."""
        member = self._join(call, on_state_change)
        if self._cancel_cause is not None:
            member.cancel(*self._cancel_cause)
        self._running += 1
        self._task_group.start_soon(self._dispatch, member, caller)
        return member

    def refuse(
        self, call: ToolCall, refusal: Refusal, on_state_change: StateListener | None = None
    ) -> CallRun:
        """A call that cannot even be dispatched still has its result, in its place."""
        member = self._join(call, on_state_change)
        member.end(refusal)
        self._settled.add(member.index)
        self._notify_waiters()
        return member

    def close(self) -> None:
        """The message is complete: no call is added any more."""
        if not self._batch.closed:
            self._batch.close()
            self._holds_results = self._result_policy.needs_all_results(self.runs)

    def completed(self) -> list[CallRun]:
        """The calls whose results are next in order and there, without waiting."""
        ready: list[CallRun] = []
        while (member := self._pop_next()) is not None:
            ready.append(member)
        return ready

    async def remaining(self) -> AsyncGenerator[CallRun, None]:
        """The message is complete: every call that is not delivered yet, as its turn comes."""
        self.close()
        while self._delivered < len(self.runs):
            member = self._pop_next()
            if member is not None:
                yield member
            else:
                await self._changed.wait()

    def cancel(self, reason: CancelReason, message: str) -> None:
        """Ends every call that has not ended, but for those whose tools block interrupts. A call
        that is added later ends the same way."""
        self._cancel_cause = self._cancel_cause or (reason, message)
        for member in self.runs[self._delivered :]:
            member.cancel(reason, message)

    def _join(self, call: ToolCall, on_state_change: StateListener | None) -> CallRun:
        if self._batch.closed:
            raise RuntimeError("the message is complete; begin a new stream for the next one")
        member = self._batch.join(self._dispatcher.unwrap_call_tool(call))
        member.on_state_change = on_state_change
        member.set_state(CallState.QUEUED)
        return member

    async def _dispatch(self, run: CallRun, caller: Caller) -> None:
        try:
            await self._dispatcher.dispatch(run.call, self._scope, caller, run)
        except Exception:  # a bug of ours must not take the other calls along
            logger.exception("call %s of %s failed", run.call.id, run.call.name)
        self._running -= 1
        self._unsettled.append(run)
        if not self._holds_results or not self._running:
            await self._settle()

    async def _settle(self) -> None:
        ended, self._unsettled = self._unsettled, []
        try:
            await self._result_policy.settle(sorted(ended, key=lambda member: member.index))
        except Exception:  # as above; the results are delivered as they are
            logger.exception("%d results could not be settled", len(ended))
        finally:
            self._settled.update(member.index for member in ended)
            self._notify_waiters()

    def _pop_next(self) -> CallRun | None:
        if self._delivered not in self._settled:
            return None
        self._settled.remove(self._delivered)
        member = self.runs[self._delivered]
        self._delivered += 1
        member.set_state(CallState.DELIVERED)
        return member

    def _notify_waiters(self) -> None:
        news, self._changed = self._changed, anyio.Event()
        news.set()


class MessageBudget:
    """Of one message. Each result is judged once, with all that are known at that time."""

    def __init__(
        self, dispatcher: Dispatcher, scope: Scope, budget: BatchBudget | None = None
    ) -> None:
        self._dispatcher = dispatcher
        self._scope = scope
        self._budget = budget or BatchBudget()

    def needs_all_results(self, runs: Sequence[CallRun]) -> bool:
        """Whether the results could pass the budget if each were as large as it may be."""
        largest = [self._dispatcher.max_result_chars(member.call) for member in runs]
        return sum(largest) > self._budget.remaining

    async def settle(self, runs: Sequence[CallRun]) -> None:
        sizes = {
            member.call.id: measure_result(member.outcome.wire)
            for member in runs
            if isinstance(member.outcome, Completed)
            and self._dispatcher.max_result_chars(member.call) > 0
        }
        replaced = select_results_to_replace(sizes, self._budget.remaining)
        for member in runs:
            if isinstance(member.outcome, Completed) and member.call.id in replaced:
                member.outcome = await self._dispatcher.shrink(member.outcome, self._scope)
                self._budget.consume(measure_result(member.outcome.wire))
            elif member.call.id in sizes:
                self._budget.consume(sizes[member.call.id])
