"""Many calls at once: each with its place in a batch, and for a whole message results in order."""

import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from mcp_dispatch.model.approval import Caller
from mcp_dispatch.model.calls import Completed, Outcome, ToolCall
from mcp_dispatch.model.outcome import CancelReason, Refusal
from mcp_dispatch.pipeline.batch import CallState, Member, Watch
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.results.limits import Budget, to_replace
from mcp_dispatch.results.size import measure

logger = logging.getLogger(__name__)


class Settlement(Protocol):
    """Decides for good how calls that have ended are delivered."""

    def crowded(self, members: Sequence[Member]) -> bool:
        """Whether the results of a whole message could be too much together: then all of them are
        waited for before one is delivered."""
        ...

    async def settle(self, members: Sequence[Member]) -> None:
        """May replace the outcomes, once."""
        ...


class AsTheyAre:
    """Every result is delivered as the pipeline made it."""

    def crowded(self, members: Sequence[Member]) -> bool:
        return False

    async def settle(self, members: Sequence[Member]) -> None:
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
        call = self._dispatcher.opened(call)
        member = scope.batches.join(call)
        outcome = await self._dispatcher.dispatch(call, scope, caller, member)
        member.reach(CallState.DELIVERED)
        return outcome

    def stream(
        self, scope: Scope, tasks: TaskGroup, settlement: Settlement | None = None
    ) -> "Stream":
        """The calls of one message; they run in `tasks`."""
        return Stream(self._dispatcher, scope, tasks, settlement or AsTheyAre())


class Stream:
    """The calls of one message, each begun as soon as it may run, while the message is still being
    written; their results in the order of the calls, each exactly once."""

    def __init__(
        self, dispatcher: Dispatcher, scope: Scope, tasks: TaskGroup, settlement: Settlement
    ) -> None:
        self._dispatcher = dispatcher
        self._scope = scope
        self._tasks = tasks
        self._settlement = settlement
        self._batch = scope.batches.message()
        self._running = 0
        self._held = False
        self._settled: set[int] = set()
        self._unsettled: list[Member] = []
        self._delivered = 0
        self._cancelled_by: tuple[CancelReason, str] | None = None
        self._news = anyio.Event()

    @property
    def members(self) -> Sequence[Member]:
        """Every call that was added, in order; each tells its state."""
        return self._batch.members

    @property
    def interruptible(self) -> bool:
        """Whether an interrupt would stop everything that runs now."""
        running = (each for each in self.members if each.state is CallState.EXECUTING)
        return all(member.interruptible for member in running)

    def add(self, call: ToolCall, caller: Caller, watch: Watch | None = None) -> Member:
        """Starts the call, or queues it behind what must end first."""
        member = self._join(call, watch)
        if self._cancelled_by is not None:
            member.cancel(*self._cancelled_by)
        self._running += 1
        self._tasks.start_soon(self._run, member, caller)
        return member

    def refuse(self, call: ToolCall, refusal: Refusal, watch: Watch | None = None) -> Member:
        """A call that cannot even be dispatched still has its result, in its place."""
        member = self._join(call, watch)
        member.end(refusal)
        self._settled.add(member.index)
        self._tell()
        return member

    def close(self) -> None:
        """The message is complete: no call is added any more."""
        if not self._batch.closed:
            self._batch.close()
            self._held = self._settlement.crowded(self.members)

    def completed(self) -> list[Member]:
        """The calls whose results are next in order and there, without waiting."""
        ready: list[Member] = []
        while (member := self._take()) is not None:
            ready.append(member)
        return ready

    async def remaining(self) -> AsyncGenerator[Member, None]:
        """The message is complete: every call that is not delivered yet, as its turn comes."""
        self.close()
        while self._delivered < len(self.members):
            member = self._take()
            if member is not None:
                yield member
            else:
                await self._news.wait()

    def cancel(self, reason: CancelReason, message: str) -> None:
        """Ends every call that has not ended, but for those whose tools block interrupts. A call
        that is added later ends the same way."""
        self._cancelled_by = self._cancelled_by or (reason, message)
        for member in self.members[self._delivered :]:
            member.cancel(reason, message)

    def _join(self, call: ToolCall, watch: Watch | None) -> Member:
        if self._batch.closed:
            raise RuntimeError("the message is complete; begin a new stream for the next one")
        member = self._batch.join(self._dispatcher.opened(call))
        member.watch = watch
        member.reach(CallState.QUEUED)
        return member

    async def _run(self, member: Member, caller: Caller) -> None:
        try:
            await self._dispatcher.dispatch(member.call, self._scope, caller, member)
        except Exception:  # a bug of ours must not take the other calls along
            logger.exception("call %s of %s failed", member.call.id, member.call.name)
        self._running -= 1
        self._unsettled.append(member)
        if not self._held or not self._running:
            await self._settle()

    async def _settle(self) -> None:
        ended, self._unsettled = self._unsettled, []
        try:
            await self._settlement.settle(sorted(ended, key=lambda member: member.index))
        except Exception:  # as above; the results are delivered as they are
            logger.exception("%d results could not be settled", len(ended))
        finally:
            self._settled.update(member.index for member in ended)
            self._tell()

    def _take(self) -> Member | None:
        if self._delivered not in self._settled:
            return None
        self._settled.remove(self._delivered)
        member = self.members[self._delivered]
        self._delivered += 1
        member.reach(CallState.DELIVERED)
        return member

    def _tell(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()


class MessageBudget:
    """Of one message. Each result is judged once, with all that are known at that time."""

    def __init__(self, dispatcher: Dispatcher, scope: Scope, budget: Budget | None = None) -> None:
        self._dispatcher = dispatcher
        self._scope = scope
        self._budget = budget or Budget()

    def crowded(self, members: Sequence[Member]) -> bool:
        """Whether the results could pass the budget if each were as large as it may be."""
        largest = [self._dispatcher.largest_result(member.call) for member in members]
        return sum(largest) > self._budget.left

    async def settle(self, members: Sequence[Member]) -> None:
        sizes = {
            member.call.id: measure(member.outcome.wire)
            for member in members
            if isinstance(member.outcome, Completed)
            and self._dispatcher.largest_result(member.call) > 0
        }
        replaced = to_replace(sizes, self._budget.left)
        for member in members:
            if isinstance(member.outcome, Completed) and member.call.id in replaced:
                member.outcome = await self._dispatcher.shrink(member.outcome, self._scope)
                self._budget.spend(measure(member.outcome.wire))
            elif member.call.id in sizes:
                self._budget.spend(sizes[member.call.id])
