"""The questions that lie open for a terminal: those of calls that wait, and those of calls that
were refused because nobody could be asked."""

import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from mcp_dispatch.model.approval import Approved, Declined, Extent, Question

OPEN_SECONDS: Final = 600.0
"""How long a question outlives the call that was refused for want of an answer."""

MOST_LEFT: Final = 100
"""Such questions at a time; the oldest make room."""

Remember = Callable[[Approved], Awaitable[None]]
"""Sets a lasting yes down, for a call that is over."""


@dataclass(eq=False, slots=True)
class Lying:
    """One question on the desk. `until` is None while its call waits for the answer."""

    id: str
    question: Question
    since: float
    until: float | None
    remember: Remember
    reply: Approved | Declined | None = None
    answered: anyio.Event = field(default_factory=anyio.Event)


class Desk:
    """Each question is answered once: the first answer counts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lying: dict[str, Lying] = {}
        self._changed = anyio.Event()
        self.terminals = 0
        """How many are looking at the desk right now."""

        self.reachable = False
        """Whether a terminal could come at all."""

    @property
    def open(self) -> list[Lying]:
        """What waits for an answer, the oldest first."""
        self._forget_old()
        return [each for each in self._lying.values() if each.reply is None]

    def age(self, lying: Lying) -> float:
        return self._clock() - lying.since

    async def changed(self) -> None:
        """Returns when a question came, went or was answered."""
        await self._changed.wait()

    async def wait(
        self, question: Question, remember: Remember, seconds: float
    ) -> Approved | Declined | None:
        """Until a person answers; None where nobody does in time, and then the question stays.

        Whoever is cancelled here takes the question along.
        """
        lying = self._lay(question, remember, until=None)
        try:
            with anyio.move_on_after(seconds):
                await lying.answered.wait()
            if lying.reply is None and self.reachable:
                lying.until = self._clock() + OPEN_SECONDS
                self._tell()
        finally:
            if lying.until is None:
                self._withdraw(lying)
        return lying.reply

    def leave(self, question: Question, remember: Remember) -> None:
        """For the call made again: it finds the answer, if there is one by then."""
        if not self.reachable:
            return
        self._forget_old()
        while len(left := [each for each in self._lying.values() if each.until]) >= MOST_LEFT:
            self._withdraw(left[0])
        self._lay(question, remember, until=self._clock() + OPEN_SECONDS)

    def take(self, question: Question) -> Approved | Declined | None:
        """The answer that was given to the same call before; it is used up."""
        self._forget_old()
        lying = self._left(question.key)
        if lying is None or lying.reply is None:
            return None
        self._withdraw(lying)
        return lying.reply

    async def answer(self, id: str, reply: Approved | Declined) -> str | None:
        """Why the answer does not count; None where it does."""
        self._forget_old()
        lying = self._lying.get(id)
        if lying is None:
            return "the question is gone: it was answered, withdrawn or too old"
        if lying.reply is not None:
            return "the question has been answered already"
        if isinstance(reply, Approved) and reply.extent not in lying.question.offer.extents:
            return f"{reply.extent.value!r} is not offered for this question"
        lying.reply = reply
        lying.answered.set()
        self._tell()
        if isinstance(reply, Declined) or reply.extent is Extent.ONCE:
            return None
        if lying.until is not None:
            # The rule answers the call made again; nothing is left to be used up.
            self._withdraw(lying)
            await lying.remember(reply)
        return None

    def withdraw_scope(self, scope: str) -> None:
        """Nobody will make its calls again."""
        for lying in [each for each in self._lying.values() if each.question.scope == scope]:
            self._withdraw(lying)

    def _lay(self, question: Question, remember: Remember, until: float | None) -> Lying:
        before = self._left(question.key)
        if before is not None:
            self._withdraw(before)
        id = before.id if before else self._new_id()
        since = before.since if before else self._clock()
        lying = self._lying[id] = Lying(id, question, since, until, remember)
        self._tell()
        return lying

    def _new_id(self) -> str:
        while (id := secrets.token_hex(3)) in self._lying:
            pass
        return id

    def _left(self, key: str) -> Lying | None:
        found = [each for each in self._lying.values() if each.until and each.question.key == key]
        return found[0] if found else None

    def _withdraw(self, lying: Lying) -> None:
        if self._lying.get(lying.id) is lying:
            del self._lying[lying.id]
            self._tell()

    def _forget_old(self) -> None:
        now = self._clock()
        for lying in [each for each in self._lying.values() if each.until and each.until < now]:
            self._withdraw(lying)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
