"""Questions that a terminal can answer.

Either their call waits for the answer, or it was refused because nobody could be asked. A question
of the second kind is detached: its answer is used when the same call is made again.
"""

import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from mcp_dispatch.concurrency.change_signal import ChangeSignal
from mcp_dispatch.model.approval import ApprovalScope, Approved, Declined, Question
from mcp_dispatch.model.client import PENDING_SECONDS

MAX_DETACHED: Final = 100
"""Detached questions at a time; the oldest are dropped."""

RememberCallback = Callable[[Approved], Awaitable[None]]
"""Saves a lasting approval of a call that has ended."""


@dataclass(eq=False, slots=True)
class PendingApproval:
    """One question. `expires_at` is None while its call waits for the answer."""

    id: str
    question: Question
    created_at: float
    expires_at: float | None
    remember: RememberCallback
    reply: Approved | Declined | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


class PendingApprovals:
    """The questions of one server. Only the first answer to a question counts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._approvals: dict[str, PendingApproval] = {}
        self._changed = ChangeSignal()
        self.terminal_count = 0
        """Terminals that are attached now."""

        self.reachable = False
        """Whether terminals can connect to this server."""

    @property
    def unanswered(self) -> list[PendingApproval]:
        """The questions without an answer, oldest first."""
        self._remove_expired()
        return [each for each in self._approvals.values() if each.reply is None]

    def measure_age(self, approval: PendingApproval) -> float:
        return self._clock() - approval.created_at

    async def wait_for_change(self) -> None:
        """Return when a question is added, removed or answered."""
        await self._changed.wait()

    async def wait_for_answer(
        self, question: Question, remember: RememberCallback, timeout: float
    ) -> Approved | Declined | None:
        """Return the answer of a person, or None after `timeout`: the question is detached then.

        Cancelling this call removes the question.
        """
        approval = self._add(question, remember, expires_at=None)
        try:
            with anyio.move_on_after(timeout):
                await approval.answered.wait()
            if approval.reply is None and self.reachable:
                approval.expires_at = self._clock() + PENDING_SECONDS
                self._changed.notify()
        finally:
            if approval.expires_at is None:
                self._remove(approval)
        return approval.reply

    def add_detached(self, question: Question, remember: RememberCallback) -> None:
        """Add a question whose answer is used when the same call is made again."""
        if not self.reachable:
            return
        self._remove_expired()
        detached = [each for each in self._approvals.values() if each.expires_at]
        excess = max(0, len(detached) - MAX_DETACHED + 1)
        for oldest in detached[:excess]:
            self._remove(oldest)
        self._add(question, remember, expires_at=self._clock() + PENDING_SECONDS)

    def pop_answer(self, question: Question) -> Approved | Declined | None:
        """Return the answer to an earlier identical call, and remove it."""
        self._remove_expired()
        approval = self._find_detached(question.key)
        if approval is None or approval.reply is None:
            return None
        self._remove(approval)
        return approval.reply

    async def answer(self, id: str, reply: Approved | Declined) -> str | None:
        """Record an answer. Return why it is rejected, or None if it is accepted."""
        self._remove_expired()
        approval = self._approvals.get(id)
        if approval is None:
            return "the question is gone: it was answered, withdrawn or too old"
        if approval.reply is not None:
            return "the question has been answered already"
        if isinstance(reply, Approved) and reply.scope not in approval.question.options.scopes:
            return f"{reply.scope.value!r} is not offered for this question"
        approval.reply = reply
        approval.answered.set()
        self._changed.notify()
        if isinstance(reply, Declined) or reply.scope is ApprovalScope.ONCE:
            return None
        if approval.expires_at is not None:
            # The saved rule allows the call when it is made again, so no answer is kept for it.
            self._remove(approval)
            await approval.remember(reply)
        return None

    def remove_scope(self, scope_id: str) -> None:
        """Remove the questions of a scope that has ended."""
        for approval in list(self._approvals.values()):
            if approval.question.scope_id == scope_id:
                self._remove(approval)

    def _add(
        self, question: Question, remember: RememberCallback, expires_at: float | None
    ) -> PendingApproval:
        """Add a question; one that replaces a detached question keeps its id and age."""
        before = self._find_detached(question.key)
        if before is not None:
            self._remove(before)
        id = before.id if before else self._generate_id()
        created_at = before.created_at if before else self._clock()
        approval = PendingApproval(id, question, created_at, expires_at, remember)
        self._approvals[id] = approval
        self._changed.notify()
        return approval

    def _generate_id(self) -> str:
        while (id := secrets.token_hex(3)) in self._approvals:
            pass
        return id

    def _find_detached(self, key: str) -> PendingApproval | None:
        for approval in self._approvals.values():
            if approval.expires_at and approval.question.key == key:
                return approval
        return None

    def _remove(self, approval: PendingApproval) -> None:
        if self._approvals.get(approval.id) is approval:
            del self._approvals[approval.id]
            self._changed.notify()

    def _remove_expired(self) -> None:
        now = self._clock()
        for approval in list(self._approvals.values()):
            if approval.expires_at and approval.expires_at < now:
                self._remove(approval)
