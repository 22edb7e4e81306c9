"""The calls of one message: started as they are added, results in the order of the calls."""

import logging
import time
from collections.abc import AsyncGenerator, Sequence

from anyio.abc import TaskGroup

from mcp_dispatch.concurrency.change_signal import ChangeSignal
from mcp_dispatch.journal.records import build_shrunk_record
from mcp_dispatch.model.approval import Caller
from mcp_dispatch.model.calls import Completed, ToolCall
from mcp_dispatch.model.outcome import CancelReason, Refusal
from mcp_dispatch.pipeline.batch import CallRun, CallState, StateListener
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services
from mcp_dispatch.pipeline.stages.finish import shrink
from mcp_dispatch.results.limits import BatchBudget, select_results_to_replace
from mcp_dispatch.results.size import measure_result

logger = logging.getLogger(__name__)


class MessageBudget:
    """Limits the total size of the results of one message. Each result is measured once, together
    with the others that have ended by then."""

    def __init__(self, services: Services, scope: Scope, budget: BatchBudget | None = None) -> None:
        self._services = services
        self._scope = scope
        self._budget = budget or BatchBudget()

    def needs_all_results(self, runs: Sequence[CallRun]) -> bool:
        """Whether the results could exceed the budget if each were as large as its limit allows."""
        return sum(self._max_chars(run.call) for run in runs) > self._budget.remaining

    async def settle(self, runs: Sequence[CallRun]) -> None:
        """Store the largest results on disk until the rest fits; replace their outcomes."""
        sizes = {
            run.call.id: measure_result(run.outcome.wire)
            for run in runs
            if isinstance(run.outcome, Completed) and self._max_chars(run.call) > 0
        }
        replaced = select_results_to_replace(sizes, self._budget.remaining)
        for run in runs:
            if isinstance(run.outcome, Completed) and run.call.id in replaced:
                run.outcome = await self._shrink(run.outcome)
                self._budget.consume(measure_result(run.outcome.wire))
            elif run.call.id in sizes:
                self._budget.consume(sizes[run.call.id])

    def _max_chars(self, call: ToolCall) -> int:
        """Return the maximum size of the call's result, 0 if it does not count for the budget."""
        snapshot = self._services.get_snapshot()
        tool = snapshot.registry.find(call.name)
        limit = snapshot.limits.find_limit(tool) if tool else None
        return limit.chars or 0 if limit is not None and limit.uses_batch_budget else 0

    async def _shrink(self, completed: Completed) -> Completed:
        shrunk = await shrink(completed, self._scope, self._services)
        record = build_shrunk_record(shrunk, scope=self._scope.id, now=time.time())
        await self._services.journal.record(record)
        return shrunk


class CallStream:
    """The calls of one message. Each call starts as soon as it may run, while the model still
    writes the message. Each result is delivered exactly once. Calls run in `task_group`."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        scope: Scope,
        task_group: TaskGroup,
        budget: MessageBudget | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._scope = scope
        self._task_group = task_group
        self._budget = budget
        self._batch = scope.batch_window.create_message_batch()
        self._running = 0
        self._holds_results = False
        self._settled: set[int] = set()
        self._unsettled: list[CallRun] = []
        self._delivered = 0
        self._cancel_cause: tuple[CancelReason, str] | None = None
        self._changed = ChangeSignal()

    @property
    def runs(self) -> Sequence[CallRun]:
        """The added calls, in order."""
        return self._batch.runs

    @property
    def interruptible(self) -> bool:
        """Whether an interrupt would stop every call that runs now."""
        running = (run for run in self.runs if run.state is CallState.EXECUTING)
        return all(run.interruptible for run in running)

    def add(
        self, call: ToolCall, caller: Caller, on_state_change: StateListener | None = None
    ) -> CallRun:
        """Start the call, or queue it until it may run."""
        run = self._join(call, on_state_change)
        if self._cancel_cause is not None:
            run.cancel(*self._cancel_cause)
        self._running += 1
        self._task_group.start_soon(self._dispatch, run, caller)
        return run

    def refuse(
        self, call: ToolCall, refusal: Refusal, on_state_change: StateListener | None = None
    ) -> CallRun:
        """Add a call that cannot be dispatched; the refusal is delivered as its result."""
        run = self._join(call, on_state_change)
        run.end(refusal)
        self._settled.add(run.index)
        self._changed.notify()
        return run

    def close(self) -> None:
        """Declare the message complete: no more calls are added."""
        if not self._batch.closed:
            self._batch.close()
            budget = self._budget
            self._holds_results = budget is not None and budget.needs_all_results(self.runs)

    def completed(self) -> list[CallRun]:
        """Return the calls that are next in order and have results, without waiting."""
        ready: list[CallRun] = []
        while (run := self._pop_next()) is not None:
            ready.append(run)
        return ready

    async def remaining(self) -> AsyncGenerator[CallRun, None]:
        """Close the message and yield the calls that are not delivered yet, in order."""
        self.close()
        while self._delivered < len(self.runs):
            run = self._pop_next()
            if run is not None:
                yield run
            else:
                await self._changed.wait()

    def cancel(self, reason: CancelReason, message: str) -> None:
        """Cancel every call that has not ended, and every call that is added later. Tools that
        block interrupts finish."""
        self._cancel_cause = self._cancel_cause or (reason, message)
        for run in self.runs[self._delivered :]:
            run.cancel(reason, message)

    def _join(self, call: ToolCall, on_state_change: StateListener | None) -> CallRun:
        if self._batch.closed:
            raise RuntimeError("the message is complete; begin a new stream for the next one")
        return self._batch.join(call, on_state_change)

    async def _dispatch(self, run: CallRun, caller: Caller) -> None:
        try:
            await self._dispatcher.dispatch_run(run, self._scope, caller)
        except Exception:  # a bug of ours must not end the other calls
            logger.exception("call %s of %s failed", run.call.id, run.call.name)
        self._running -= 1
        self._unsettled.append(run)
        if not self._holds_results or not self._running:
            await self._settle()

    async def _settle(self) -> None:
        ended, self._unsettled = self._unsettled, []
        try:
            if self._budget is not None:
                await self._budget.settle(sorted(ended, key=lambda run: run.index))
        except Exception:  # a bug of ours; the results are delivered unchanged
            logger.exception("%d results could not be settled", len(ended))
        finally:
            self._settled.update(run.index for run in ended)
            self._changed.notify()

    def _pop_next(self) -> CallRun | None:
        if self._delivered not in self._settled:
            return None
        self._settled.remove(self._delivered)
        run = self.runs[self._delivered]
        self._delivered += 1
        run.set_state(CallState.DELIVERED)
        return run
