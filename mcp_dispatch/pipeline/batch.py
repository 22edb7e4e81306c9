"""Batches: the calls that belong together, how each of them ends, and what that means to the rest."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

import anyio

from mcp_dispatch.model.calls import Executed, Outcome, ToolCall
from mcp_dispatch.model.outcome import Cancelled, CancelReason
from mcp_dispatch.model.tools import ContextChange, Interrupt, Sharing, Tool

AT_MOST = 64
"""Calls of one batch, where it is a window of time."""

_SHELL = "Bash"
_LONGEST_COMMAND = 80


class CallState(Enum):
    """How far a call is."""

    QUEUED = "queued"
    EXECUTING = "executing"
    COMPLETED = "completed"
    DELIVERED = "delivered"


class SiblingAbort(Enum):
    """Whom a failing call takes along: a shell command other shell commands, anything everything,
    or nobody."""

    SHELL = "shell"
    ALL = "all"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Batching:
    """Which calls belong together, and what a failing one does to the others."""

    window_seconds: float = 0.25
    sibling_abort: SiblingAbort = SiblingAbort.SHELL


Apply = Callable[[Iterable[ContextChange]], None]
Watch = Callable[["Member"], None]
"""Told of a call whenever its state has changed."""


class Member:
    """One call of a batch, from its arrival to its outcome."""

    def __init__(self, batch: "Batch", call: ToolCall) -> None:
        self.batch = batch
        self.index = len(batch.members)
        self.call = call
        self.tool: Tool | None = None
        """None until the call is found to be a valid call of a tool."""

        self.sharing = Sharing.EXCLUSIVE
        self.state = CallState.QUEUED
        self.outcome: Outcome | None = None
        """How the call ended; None until then."""

        self.scope = anyio.CancelScope()
        """What the call runs in. `cancel` ends it, and nothing else does."""

        self.watch: Watch | None = None
        self.cancelled: Cancelled | None = None
        self.changes: tuple[ContextChange, ...] = ()
        self._begun = False

    @property
    def interruptible(self) -> bool:
        """Whether a cancel would stop it now: a tool that blocks finishes what it began."""
        return not self._begun or self.tool is None or self.tool.interrupt is Interrupt.CANCEL

    def resolve(self, tool: Tool, sharing: Sharing) -> None:
        """The call is valid; it queues now."""
        self.tool, self.sharing = tool, sharing
        self.batch.catch_up(self)

    def admit(self, sharing: Sharing) -> None:
        """The call has its slot."""
        self.sharing = sharing
        self.reach(CallState.EXECUTING)
        if sharing is Sharing.EXCLUSIVE:
            self.batch.apply_changes()

    def begin(self) -> None:
        """The tool itself runs from here on."""
        self._begun = True

    def ran(self, executed: Executed) -> None:
        """The tool has answered; its slot is still held, so no sibling has slipped in since."""
        self.changes = executed.result.changes
        self.batch.changed(self)
        if executed.result.is_error:
            self.batch.failed(self)

    def end(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.batch.ended(self)
        self.reach(CallState.COMPLETED)

    def reach(self, state: CallState) -> None:
        if state is not self.state:
            self.state = state
            if self.watch is not None:
                self.watch(self)

    def cancel(self, reason: CancelReason, message: str = "") -> bool:
        """Whether the call will end so: one that has ended, or that runs a tool which blocks
        interrupts, goes its own way."""
        if self.outcome is not None or self.cancelled is not None or not self.interruptible:
            return False
        self.cancelled = Cancelled(reason, message)
        self.scope.cancel()
        return True


class Batch:
    """The calls of one message, or of one window of time, in order of arrival."""

    def __init__(self, batching: Batching, apply: Apply, *, closes_at: float | None) -> None:
        """Without `closes_at` it is a whole message, and stays open until it is closed."""
        self.members: list[Member] = []
        self.whole = closes_at is None
        """Whether all calls of a message are here: nobody has seen a result of theirs before the
        last of them was made."""

        self._batching = batching
        self._apply = apply
        self._closes_at = closes_at
        self._closed = anyio.Event()
        self._over = anyio.Event()
        self._news = anyio.Event()
        self._running = 0
        self._last: Member | None = None
        self._failure: Member | None = None
        self._changed: list[Member] = []

    @property
    def closed(self) -> bool:
        """Whether no call can join any more."""
        if not self._closed.is_set() and self._late():
            self.close()
        return self._closed.is_set()

    @property
    def running(self) -> int:
        """How many of its calls have not ended."""
        return self._running

    def join(self, call: ToolCall) -> Member:
        member = Member(self, call)
        self.members.append(member)
        self._running += 1
        self._tell()
        if not self.whole and len(self.members) >= AT_MOST:
            self.close()
        return member

    def close(self) -> None:
        self._closed.set()
        self._tell()
        if not self._running:
            self._over.set()

    async def over(self) -> None:
        """Returns once no call can join any more and all have ended.

        A call that waits for this before its own end waits for ever.
        """
        if not self.closed and self._closes_at is not None:
            with anyio.move_on_after(self._closes_at - time.monotonic()):
                await self._closed.wait()
            self.close()
        await self._over.wait()

    async def over_with(self, member: Member) -> bool:
        """Whether the call, which has ended, was the last of all: waits for as long as another one
        may join, and no longer."""
        while not self._running and not self.closed:
            news = self._news
            left = None if self._closes_at is None else self._closes_at - time.monotonic()
            with anyio.move_on_after(left):
                await news.wait()
        return not self._running and self._last is member

    def ended(self, member: Member) -> None:
        self._running -= 1
        self._last = member
        if not self._running:
            self.apply_changes()
            if self.closed:
                self._over.set()

    def changed(self, member: Member) -> None:
        """What shared calls of a message change waits for the end of their group."""
        self._changed.append(member)
        if member.sharing is Sharing.EXCLUSIVE or not self.whole:
            self.apply_changes()

    def apply_changes(self) -> None:
        """What calls changed in the scope since the last time, in the order of the calls."""
        for member in sorted(self._changed, key=lambda member: member.index):
            self._apply(member.changes)
        self._changed.clear()

    def failed(self, failure: Member) -> None:
        """Siblings that still queue or run are cancelled, where the failure concerns them."""
        if not self._takes_along(failure) or (self.whole and self._failure is not None):
            return
        self._failure = failure
        for member in self.members:
            self._cancel_after(failure, member)

    def catch_up(self, member: Member) -> None:
        """A call of the same message that comes after a failure was made without knowing of it; in
        a window of time it may well be the answer to it."""
        if self._failure is not None and self.whole:
            self._cancel_after(self._failure, member)

    def _takes_along(self, failure: Member) -> bool:
        abort = self._batching.sibling_abort
        return abort is SiblingAbort.ALL or (abort is SiblingAbort.SHELL and _is_shell(failure))

    def _cancel_after(self, failure: Member, member: Member) -> None:
        concerned = self._batching.sibling_abort is SiblingAbort.ALL or _is_shell(member)
        if member is not failure and concerned:
            how = "was stopped" if member.state is CallState.EXECUTING else "did not run"
            member.cancel(
                CancelReason.SIBLING_ERROR,
                f"{_shown(failure)}, which was called together with it, failed; this call {how}",
            )

    def _tell(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    def _late(self) -> bool:
        return self._closes_at is not None and time.monotonic() >= self._closes_at


class Batches:
    """The batches of one scope: calls that arrive in the same short window belong together."""

    def __init__(self, batching: Batching, apply: Apply) -> None:
        self._batching = batching
        self._apply = apply
        self._open: Batch | None = None

    def join(self, call: ToolCall) -> Member:
        """The call belongs to the window that is open now, or opens one."""
        if self._open is None or self._open.closed:
            closes_at = time.monotonic() + self._batching.window_seconds
            self._open = Batch(self._batching, self._apply, closes_at=closes_at)
        return self._open.join(call)

    def message(self) -> Batch:
        """A batch of its own, for the calls of one message; it is closed by whoever fills it."""
        return Batch(self._batching, self._apply, closes_at=None)


def _is_shell(member: Member) -> bool:
    return member.tool is not None and member.tool.rule_name == _SHELL


def _shown(member: Member) -> str:
    """A call in a few words, for the model that made it."""
    name = member.tool.rule_name if member.tool else member.call.name
    command = member.call.arguments.get("command")
    if not isinstance(command, str):
        return name
    line = " ".join(command.split())
    short = line if len(line) <= _LONGEST_COMMAND else line[: _LONGEST_COMMAND - 1] + "…"
    return f"{name} `{short}`"
