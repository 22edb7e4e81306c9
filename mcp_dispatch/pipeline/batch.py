"""Batches: the calls that belong together, how each of them ends, and what that means to the rest."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

import anyio

from mcp_dispatch.model.calls import Executed, Outcome, ToolCall
from mcp_dispatch.model.outcome import Cancelled, CancelReason
from mcp_dispatch.model.tools import ContextChange, Interrupt, Sharing, Tool

MAX_WINDOW_CALLS = 64
"""Calls of one batch, where it is a window of time."""

_SHELL_TOOL = "Bash"
_MAX_COMMAND_CHARS = 80


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
class BatchSettings:
    """Which calls belong together, and what a failing one does to the others."""

    window_seconds: float = 0.25
    sibling_abort: SiblingAbort = SiblingAbort.SHELL


ApplyChanges = Callable[[Iterable[ContextChange]], None]
StateListener = Callable[["CallRun"], None]
"""Told of a call whenever its state has changed."""


class CallRun:
    """One call of a batch, from its arrival to its outcome."""

    def __init__(self, batch: "Batch", call: ToolCall) -> None:
        self.batch = batch
        self.index = len(batch.runs)
        self.call = call
        self.tool: Tool | None = None
        """None until the call is found to be a valid call of a tool."""

        self.sharing = Sharing.EXCLUSIVE
        self.state = CallState.QUEUED
        self.outcome: Outcome | None = None
        """How the call ended; None until then."""

        self.cancel_scope = anyio.CancelScope()
        """What the call runs in. `cancel` ends it, and nothing else does."""

        self.on_state_change: StateListener | None = None
        self.cancelled: Cancelled | None = None
        self.changes: tuple[ContextChange, ...] = ()
        self._tool_started = False

    @property
    def interruptible(self) -> bool:
        """Whether a cancel would stop it now: a tool that blocks finishes what it began."""
        return (
            not self._tool_started or self.tool is None or self.tool.interrupt is Interrupt.CANCEL
        )

    def set_tool(self, tool: Tool, sharing: Sharing) -> None:
        """The call is valid; it queues now."""
        self.tool, self.sharing = tool, sharing
        self.batch.cancel_if_failed(self)

    def admit(self, sharing: Sharing) -> None:
        """The call has its slot."""
        self.sharing = sharing
        self.set_state(CallState.EXECUTING)
        if sharing is Sharing.EXCLUSIVE:
            self.batch.apply_changes()

    def mark_tool_started(self) -> None:
        """The tool itself runs from here on."""
        self._tool_started = True

    def record_result(self, executed: Executed) -> None:
        """The tool has answered; its slot is still held, so no sibling has slipped in since."""
        self.changes = executed.result.changes
        self.batch.record_changes(self)
        if executed.result.is_error:
            self.batch.cancel_siblings(self)

    def end(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.batch.record_end(self)
        self.set_state(CallState.COMPLETED)

    def set_state(self, state: CallState) -> None:
        if state is not self.state:
            self.state = state
            if self.on_state_change is not None:
                self.on_state_change(self)

    def cancel(self, reason: CancelReason, message: str = "") -> bool:
        """Whether the call will end so: one that has ended, or that runs a tool which blocks
        interrupts, goes its own way."""
        if self.outcome is not None or self.cancelled is not None or not self.interruptible:
            return False
        self.cancelled = Cancelled(reason, message)
        self.cancel_scope.cancel()
        return True


class Batch:
    """The calls of one message, or of one window of time, in order of arrival."""

    def __init__(
        self, settings: BatchSettings, apply_changes: ApplyChanges, *, closes_at: float | None
    ) -> None:
        """Without `closes_at` it is a whole message, and stays open until it is closed."""
        self.runs: list[CallRun] = []
        self.is_message = closes_at is None
        """Whether all calls of a message are here: nobody has seen a result of theirs before the
        last of them was made."""

        self._settings = settings
        self._apply_changes = apply_changes
        self._closes_at = closes_at
        self._closed = anyio.Event()
        self._finished = anyio.Event()
        self._changed = anyio.Event()
        self._running = 0
        self._last_ended: CallRun | None = None
        self._failure: CallRun | None = None
        self._runs_with_changes: list[CallRun] = []

    @property
    def closed(self) -> bool:
        """Whether no call can join any more."""
        if not self._closed.is_set() and self._is_expired():
            self.close()
        return self._closed.is_set()

    @property
    def running(self) -> int:
        """How many of its calls have not ended."""
        return self._running

    def join(self, call: ToolCall) -> CallRun:
        member = CallRun(self, call)
        self.runs.append(member)
        self._running += 1
        self._notify_waiters()
        if not self.is_message and len(self.runs) >= MAX_WINDOW_CALLS:
            self.close()
        return member

    def close(self) -> None:
        self._closed.set()
        self._notify_waiters()
        if not self._running:
            self._finished.set()

    async def wait(self) -> None:
        """Returns once no call can join any more and all have ended.

        A call that waits for this before its own end waits for ever.
        """
        if not self.closed and self._closes_at is not None:
            with anyio.move_on_after(self._closes_at - time.monotonic()):
                await self._closed.wait()
            self.close()
        await self._finished.wait()

    async def is_last(self, run: CallRun) -> bool:
        """Whether the call, which has ended, was the last of all: waits for as long as another one
        may join, and no longer."""
        while not self._running and not self.closed:
            news = self._changed
            left = None if self._closes_at is None else self._closes_at - time.monotonic()
            with anyio.move_on_after(left):
                await news.wait()
        return not self._running and self._last_ended is run

    def record_end(self, run: CallRun) -> None:
        self._running -= 1
        self._last_ended = run
        if not self._running:
            self.apply_changes()
            if self.closed:
                self._finished.set()

    def record_changes(self, run: CallRun) -> None:
        """What shared calls of a message change waits for the end of their group."""
        self._runs_with_changes.append(run)
        if run.sharing is Sharing.EXCLUSIVE or not self.is_message:
            self.apply_changes()

    def apply_changes(self) -> None:
        """What calls changed in the scope since the last time, in the order of the calls."""
        for member in sorted(self._runs_with_changes, key=lambda member: member.index):
            self._apply_changes(member.changes)
        self._runs_with_changes.clear()

    def cancel_siblings(self, failure: CallRun) -> None:
        """Siblings that still queue or run are cancelled, where the failure concerns them."""
        if not self._should_cancel_siblings(failure) or (
            self.is_message and self._failure is not None
        ):
            return
        self._failure = failure
        for member in self.runs:
            self._cancel_sibling(failure, member)

    def cancel_if_failed(self, run: CallRun) -> None:
        """A call of the same message that comes after a failure was made without knowing of it; in
        a window of time it may well be the answer to it."""
        if self._failure is not None and self.is_message:
            self._cancel_sibling(self._failure, run)

    def _should_cancel_siblings(self, failure: CallRun) -> bool:
        abort = self._settings.sibling_abort
        return abort is SiblingAbort.ALL or (abort is SiblingAbort.SHELL and _is_shell(failure))

    def _cancel_sibling(self, failure: CallRun, sibling: CallRun) -> None:
        concerned = self._settings.sibling_abort is SiblingAbort.ALL or _is_shell(sibling)
        if sibling is not failure and concerned:
            how = "was stopped" if sibling.state is CallState.EXECUTING else "did not run"
            sibling.cancel(
                CancelReason.SIBLING_ERROR,
                f"{_describe_run(failure)}, which was called together with it, failed; this call {how}",
            )

    def _notify_waiters(self) -> None:
        news, self._changed = self._changed, anyio.Event()
        news.set()

    def _is_expired(self) -> bool:
        return self._closes_at is not None and time.monotonic() >= self._closes_at


class BatchWindow:
    """The batches of one scope: calls that arrive in the same short window belong together."""

    def __init__(self, settings: BatchSettings, apply_changes: ApplyChanges) -> None:
        self._settings = settings
        self._apply_changes = apply_changes
        self._current: Batch | None = None

    def join(self, call: ToolCall) -> CallRun:
        """The call belongs to the window that is open now, or opens one."""
        if self._current is None or self._current.closed:
            closes_at = time.monotonic() + self._settings.window_seconds
            self._current = Batch(self._settings, self._apply_changes, closes_at=closes_at)
        return self._current.join(call)

    def create_message_batch(self) -> Batch:
        """A batch of its own, for the calls of one message; it is closed by whoever fills it."""
        return Batch(self._settings, self._apply_changes, closes_at=None)


def _is_shell(run: CallRun) -> bool:
    return run.tool is not None and run.tool.rule_name == _SHELL_TOOL


def _describe_run(run: CallRun) -> str:
    """A call in a few words, for the model that made it."""
    name = run.tool.rule_name if run.tool else run.call.name
    command = run.call.arguments.get("command")
    if not isinstance(command, str):
        return name
    line = " ".join(command.split())
    short = line if len(line) <= _MAX_COMMAND_CHARS else line[: _MAX_COMMAND_CHARS - 1] + "…"
    return f"{name} `{short}`"
