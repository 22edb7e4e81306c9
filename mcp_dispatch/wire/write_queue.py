"""What waits to be written to the client: in order, counted, bounded by who asks for room."""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio


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
    """A queue of lines and the one task, `run`, that writes them.

    A line once accepted is written whole, whatever becomes of the task that brought it. When the
    client is gone, what waits is dropped and `broken` is set.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]], max_bytes: int) -> None:
        self._send = send
        self._max_bytes = max_bytes
        self._lines: deque[_QueuedLine] = deque()
        self._line_added = anyio.Event()
        self._line_removed = anyio.Event()
        self._broken = False
        self._on_broken: Callable[[], None] = _ignore
        self.queued_bytes = 0
        """Bytes accepted and not yet written."""

    @property
    def broken(self) -> bool:
        return self._broken

    def on_broken(self, callback: Callable[[], None]) -> None:
        """`tell` is called once, when the client turns out to be gone."""
        self._on_broken = callback

    def enqueue(self, line: bytes, on_done: Callable[[], None] = _ignore) -> anyio.Event:
        """Accept a line. The event is set when it has been written or dropped."""
        parcel = _QueuedLine(line, on_done)
        if self._broken:
            parcel.finish()
            return parcel.done
        self.queued_bytes += len(line)
        self._lines.append(parcel)
        self._line_added.set()
        return parcel.done

    async def wait_for_capacity(self) -> None:
        """Wait until less than the bound is waiting. Returns at once when the client is gone."""
        await self._wait_until(lambda: self.queued_bytes < self._max_bytes)

    async def wait_until_empty(self) -> None:
        """Wait until nothing is waiting."""
        await self._wait_until(lambda: not self.queued_bytes)

    async def run(self) -> None:
        """Write until cancelled, or until the client is gone."""
        while not self._broken:
            if not self._lines:
                self._line_added = anyio.Event()
                await self._line_added.wait()
            try:
                await self._send(self._lines[0].line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._mark_broken()
            else:
                self._finish_line(self._lines.popleft())

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not (condition() or self._broken):
            await self._line_removed.wait()

    def _finish_line(self, queued: _QueuedLine) -> None:
        self.queued_bytes -= len(queued.line)
        queued.finish()
        moved, self._line_removed = self._line_removed, anyio.Event()
        moved.set()

    def _mark_broken(self) -> None:
        self._broken = True
        while self._lines:
            self._finish_line(self._lines.popleft())
        self._line_removed.set()
        self._on_broken()
