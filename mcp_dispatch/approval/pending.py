"""The questions that lie open for a terminal: those of calls that wait, and those of calls that
were refused because nobody could be asked."""

import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from mcp_dispatch.model.approval import ApprovalScope, Approved, Declined, Question

ANSWER_WINDOW_SECONDS: Final = 600.0
"""How long a question outlives the call that was refused for want of an answer."""

MAX_DETACHED: Final = 100
"""Such questions at a time; the oldest make room."""

RememberCallback = Callable[[Approved], Awaitable[None]]
"""Sets a lasting yes down, for a call that is over."""


@dataclass(eq=False, slots=True)
class PendingApproval:
    """One question on the desk. `until` is None while its call waits for the answer."""

    id: str
    question: Question
    created_at: float
    expires_at: float | None
    remember: RememberCallback
    reply: Approved | Declined | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


class PendingApprovals:
    """Each question is answered once: the first answer counts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._approvals: dict[str, PendingApproval] = {}
        self._changed = anyio.Event()
        self.terminal_count = 0
        """How many are looking at the desk right now."""

        self.reachable = False
        """Whether a terminal could come at all."""

    @property
    def unanswered(self) -> list[PendingApproval]:
        """What waits for an answer, the oldest first."""
        self._remove_expired()
        return [each for each in self._approvals.values() if each.reply is None]

    def measure_age(self, approval: PendingApproval) -> float:
        return self._clock() - approval.created_at

    async def wait_for_change(self) -> None:
        """Returns when a question came, went or was answered."""
        await self._changed.wait()

    async def wait_for_answer(
        self, question: Question, remember: RememberCallback, timeout: float
    ) -> Approved | Declined | None:
        """Until a person answers; None where nobody does in time, and then the question stays.

        Whoever is cancelled here takes the question along.
        """
        lying = self._add(question, remember, expires_at=None)
        try:
            with anyio.move_on_after(timeout):
                await lying.answered.wait()
            if lying.reply is None and self.reachable:
                lying.expires_at = self._clock() + ANSWER_WINDOW_SECONDS
                self._notify_change()
        finally:
            if lying.expires_at is None:
                self._remove(lying)
        return lying.reply

    def add_detached(self, question: Question, remember: RememberCallback) -> None:
        """For the call made again: it finds the answer, if there is one by then."""
        if not self.reachable:
            return
        self._remove_expired()
        while (
            len(left := [each for each in self._approvals.values() if each.expires_at])
            >= MAX_DETACHED
        ):
            self._remove(left[0])
        self._add(question, remember, expires_at=self._clock() + ANSWER_WINDOW_SECONDS)

    def pop_answer(self, question: Question) -> Approved | Declined | None:
        """The answer that was given to the same call before; it is used up."""
        self._remove_expired()
        lying = self._find_detached(question.key)
        if lying is None or lying.reply is None:
            return None
        self._remove(lying)
        return lying.reply

    async def answer(self, id: str, reply: Approved | Declined) -> str | None:
        """Why the answer does not count; None where it does."""
        self._remove_expired()
        lying = self._approvals.get(id)
        if lying is None:
            return "the question is gone: it was answered, withdrawn or too old"
        if lying.reply is not None:
            return "the question has been answered already"
        if isinstance(reply, Approved) and reply.scope not in lying.question.options.scopes:
            return f"{reply.scope.value!r} is not offered for this question"
        lying.reply = reply
        lying.answered.set()
        self._notify_change()
        if isinstance(reply, Declined) or reply.scope is ApprovalScope.ONCE:
            return None
        if lying.expires_at is not None:
            # The rule answers the call made again; nothing is left to be used up.
            self._remove(lying)
            await lying.remember(reply)
        return None

    def remove_scope(self, scope: str) -> None:
        """Nobody will make its calls again."""
        for lying in [each for each in self._approvals.values() if each.question.scope_id == scope]:
            self._remove(lying)

    def _add(
        self, question: Question, remember: RememberCallback, expires_at: float | None
    ) -> PendingApproval:
        before = self._find_detached(question.key)
        if before is not None:
            self._remove(before)
        id = before.id if before else self._generate_id()
        since = before.created_at if before else self._clock()
        lying = self._approvals[id] = PendingApproval(id, question, since, expires_at, remember)
        self._notify_change()
        return lying

    def _generate_id(self) -> str:
        while (id := secrets.token_hex(3)) in self._approvals:
            pass
        return id

    def _find_detached(self, key: str) -> PendingApproval | None:
        found = [
            each
            for each in self._approvals.values()
            if each.expires_at and each.question.key == key
        ]
        return found[0] if found else None

    def _remove(self, approval: PendingApproval) -> None:
        if self._approvals.get(approval.id) is approval:
            del self._approvals[approval.id]
            self._notify_change()

    def _remove_expired(self) -> None:
        now = self._clock()
        for lying in [
            each for each in self._approvals.values() if each.expires_at and each.expires_at < now
        ]:
            self._remove(lying)

    def _notify_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
