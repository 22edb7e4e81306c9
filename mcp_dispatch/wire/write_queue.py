"""A bounded queue of lines that one task writes to the client in order."""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from mcp_dispatch.concurrency.change_signal import ChangeSignal


def _ignore() -> None:
    pass


@dataclass(slots=True)
class _QueuedLine:
    line: bytes
    on_done: Callable[[], None]
    done: anyio.Event = field(default_factory=anyio.Event)

    def finish(self) -> None:
        self.on_done()
        self.done.set()


class WriteQueue:
    """A queue of lines and `run`, the one task that writes them.

    An accepted line is written as a whole, even if the task that enqueued it is cancelled. When
    the client is gone, queued lines are dropped and `broken` is set.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]], max_bytes: int) -> None:
        self._send = send
        self._max_bytes = max_bytes
        self._lines: deque[_QueuedLine] = deque()
        self._line_added = ChangeSignal()
        self._line_removed = ChangeSignal()
        self._broken = False
        self._on_broken: Callable[[], None] = _ignore
        self.queued_bytes = 0
        """Bytes accepted and not yet written."""

    @property
    def broken(self) -> bool:
        return self._broken

    def on_broken(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the client turns out to be gone."""
        self._on_broken = callback

    def enqueue(self, line: bytes, on_done: Callable[[], None] = _ignore) -> anyio.Event:
        """Accept a line; return an event that is set when it has been written or dropped."""
        queued = _QueuedLine(line, on_done)
        if self._broken:
            queued.finish()
            return queued.done
        self.queued_bytes += len(line)
        self._lines.append(queued)
        self._line_added.notify()
        return queued.done

    async def wait_for_capacity(self) -> None:
        """Wait until less than the maximum is queued, or the client is gone."""
        await self._line_removed.wait_until(
            lambda: self.queued_bytes < self._max_bytes or self._broken
        )

    async def wait_until_empty(self) -> None:
        """Wait until nothing is queued, or the client is gone."""
        await self._line_removed.wait_until(lambda: not self.queued_bytes or self._broken)

    async def run(self) -> None:
        """Write until cancelled, or until the client is gone."""
        while not self._broken:
            await self._line_added.wait_until(lambda: bool(self._lines))
            try:
                await self._send(self._lines[0].line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._mark_broken()
            else:
                self._finish_line(self._lines.popleft())

    def _finish_line(self, queued: _QueuedLine) -> None:
        self.queued_bytes -= len(queued.line)
        queued.finish()
        self._line_removed.notify()

    def _mark_broken(self) -> None:
        self._broken = True
        while self._lines:
            self._finish_line(self._lines.popleft())
        self._line_removed.notify()
        self._on_broken()
