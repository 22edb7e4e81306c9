"""Batches: calls that were made together, their states, and the effect of a failure on the others."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

import anyio

from mcp_dispatch.concurrency.change_signal import ChangeSignal
from mcp_dispatch.model.calls import Executed, Outcome, ToolCall
from mcp_dispatch.model.outcome import Cancelled, CancelReason
from mcp_dispatch.model.text import shorten
from mcp_dispatch.model.tools import ContextChange, Interrupt, Sharing, Tool

MAX_WINDOW_CALLS = 64
"""Calls of one batch that is a window of time."""

_SHELL_TOOL = "Bash"
_MAX_COMMAND_CHARS = 80


class CallState(Enum):
    """The progress of a call."""

    QUEUED = "queued"
    EXECUTING = "executing"
    COMPLETED = "completed"
    DELIVERED = "delivered"


class SiblingAbort(Enum):
    """What a failing call cancels: SHELL: a shell command cancels other shell commands; ALL: any
    call cancels all others; OFF: nothing."""

    SHELL = "shell"
    ALL = "all"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Which calls form a batch, and what a failing call cancels."""

    window_seconds: float = 0.25
    sibling_abort: SiblingAbort = SiblingAbort.SHELL


ApplyChanges = Callable[[Iterable[ContextChange]], None]
StateListener = Callable[["CallRun"], None]
"""Called with a call when its state has changed."""


class CallRun:
    """One call of a batch, from its arrival to its outcome."""

    def __init__(
        self, batch: "Batch", call: ToolCall, on_state_change: StateListener | None = None
    ) -> None:
        self.batch = batch
        self.index = len(batch.runs)
        self.call = call
        self.tool: Tool | None = None
        """None until the call is known to be valid."""

        self.sharing = Sharing.EXCLUSIVE
        self.state = CallState.QUEUED
        self.outcome: Outcome | None = None
        """None until the call has ended."""

        self.cancel_scope = anyio.CancelScope()
        """The scope in which the call runs. Only `cancel` cancels it."""

        self.cancelled: Cancelled | None = None
        self.changes: tuple[ContextChange, ...] = ()
        self._on_state_change = on_state_change
        self._tool_started = False

    @property
    def interruptible(self) -> bool:
        """Whether `cancel` would stop the call now. A tool that blocks interrupts finishes first."""
        return (
            not self._tool_started or self.tool is None or self.tool.interrupt is Interrupt.CANCEL
        )

    def set_tool(self, tool: Tool, sharing: Sharing) -> None:
        """Record that the call is valid and queues for a slot."""
        self.tool, self.sharing = tool, sharing
        self.batch.cancel_if_failed(self)

    def admit(self, sharing: Sharing) -> None:
        """Record that the call has its slot."""
        self.sharing = sharing
        self.set_state(CallState.EXECUTING)
        if sharing is Sharing.EXCLUSIVE:
            self.batch.apply_changes()

    def mark_tool_started(self) -> None:
        """Record that the tool runs from now on."""
        self._tool_started = True

    def record_result(self, executed: Executed) -> None:
        """Apply the changes of the result. The slot is still held, so no sibling has started yet."""
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
            if self._on_state_change is not None:
                self._on_state_change(self)

    def cancel(self, reason: CancelReason, message: str = "") -> bool:
        """Return whether the call will be cancelled. It is not if it has ended, or if its tool runs
        and blocks interrupts."""
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
        """A batch without `closes_at` is a whole message and stays open until `close`."""
        self.runs: list[CallRun] = []
        self.is_message = closes_at is None
        """Whether the batch is a whole message: the model made all its calls before it saw a result."""

        self._settings = settings
        self._apply_changes = apply_changes
        self._closes_at = closes_at
        self._closed = False
        self._changed = ChangeSignal()
        self._running = 0
        self._last_ended: CallRun | None = None
        self._failure: CallRun | None = None
        self._runs_with_changes: list[CallRun] = []

    @property
    def closed(self) -> bool:
        """Whether no more calls can join."""
        if not self._closed and self._is_expired():
            self.close()
        return self._closed

    @property
    def running(self) -> int:
        """The number of calls that have not ended."""
        return self._running

    def join(self, call: ToolCall, on_state_change: StateListener | None = None) -> CallRun:
        run = CallRun(self, call, on_state_change)
        self.runs.append(run)
        self._running += 1
        self._changed.notify()
        if not self.is_message and len(self.runs) >= MAX_WINDOW_CALLS:
            self.close()
        return run

    def close(self) -> None:
        self._closed = True
        self._changed.notify()

    async def is_last(self, run: CallRun) -> bool:
        """Return whether `run`, which has ended, was the last of the batch. Wait while no call runs
        and another one can still join."""
        while not self._running and not self.closed:
            left = None if self._closes_at is None else self._closes_at - time.monotonic()
            with anyio.move_on_after(left):
                await self._changed.wait()
        return not self._running and self._last_ended is run

    def record_end(self, run: CallRun) -> None:
        self._running -= 1
        self._last_ended = run
        if not self._running:
            self.apply_changes()

    def record_changes(self, run: CallRun) -> None:
        """Apply the changes of the call. Those of shared calls of a message wait until their group of
        calls has ended."""
        self._runs_with_changes.append(run)
        if run.sharing is Sharing.EXCLUSIVE or not self.is_message:
            self.apply_changes()

    def apply_changes(self) -> None:
        """Apply the recorded changes to the scope, in the order of the calls."""
        for run in sorted(self._runs_with_changes, key=lambda run: run.index):
            self._apply_changes(run.changes)
        self._runs_with_changes.clear()

    def cancel_siblings(self, failure: CallRun) -> None:
        """Cancel the calls of the batch that queue or run, as far as `SiblingAbort` includes them."""
        if self.is_message and self._failure is not None:
            return
        abort = self._settings.sibling_abort
        if abort is SiblingAbort.ALL or (abort is SiblingAbort.SHELL and _is_shell(failure)):
            self._failure = failure
            for run in self.runs:
                self._cancel_sibling(failure, run)

    def cancel_if_failed(self, run: CallRun) -> None:
        """Cancel a call that comes after a failure in the same message: the model did not know of
        the failure. In a window of time, the call may be a reaction to it."""
        if self._failure is not None and self.is_message:
            self._cancel_sibling(self._failure, run)

    def _cancel_sibling(self, failure: CallRun, sibling: CallRun) -> None:
        is_included = self._settings.sibling_abort is SiblingAbort.ALL or _is_shell(sibling)
        if sibling is not failure and is_included:
            how = "was stopped" if sibling.state is CallState.EXECUTING else "did not run"
            sibling.cancel(
                CancelReason.SIBLING_ERROR,
                f"{_describe_run(failure)}, which was called together with it, failed; this call {how}",
            )

    def _is_expired(self) -> bool:
        return self._closes_at is not None and time.monotonic() >= self._closes_at


class BatchWindow:
    """The batches of one scope: calls that arrive in the same short window form a batch."""

    def __init__(self, settings: BatchSettings, apply_changes: ApplyChanges) -> None:
        self._settings = settings
        self._apply_changes = apply_changes
        self._current: Batch | None = None

    def join(self, call: ToolCall) -> CallRun:
        """Add the call to the current window, or open a new one."""
        if self._current is None or self._current.closed:
            closes_at = time.monotonic() + self._settings.window_seconds
            self._current = Batch(self._settings, self._apply_changes, closes_at=closes_at)
        return self._current.join(call)

    def create_message_batch(self) -> Batch:
        """Return a new batch for the calls of one message; the caller closes it."""
        return Batch(self._settings, self._apply_changes, closes_at=None)


def _is_shell(run: CallRun) -> bool:
    return run.tool is not None and run.tool.rule_name == _SHELL_TOOL


def _describe_run(run: CallRun) -> str:
    """Describe the call in a few words for the model."""
    name = run.tool.rule_name if run.tool else run.call.name
    command = run.call.arguments.get("command")
    if not isinstance(command, str):
        return name
    return f"{name} `{shorten(' '.join(command.split()), _MAX_COMMAND_CHARS)}`"
