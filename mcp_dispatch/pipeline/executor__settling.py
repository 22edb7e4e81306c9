"""What the results of one message may deliver together: the largest are kept on disk first."""

from collections.abc import Sequence

from mcp_dispatch.model.calls import Completed
from mcp_dispatch.pipeline.batch import Member
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.results.limits__budget import Budget, to_replace
from mcp_dispatch.results.size import measure


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
