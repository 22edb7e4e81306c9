"""What waits to be written to the client: in order, counted, bounded by who asks for room."""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio


def _nothing() -> None:
    pass


@dataclass(slots=True)
class _Parcel:
    line: bytes
    on_gone: Callable[[], None]
    gone: anyio.Event = field(default_factory=anyio.Event)

    def leave(self) -> None:
        self.on_gone()
        self.gone.set()


class Outflow:
    """A queue of lines and the one task, `run`, that writes them.

    A line once accepted is written whole, whatever becomes of the task that brought it. When the
    client is gone, what waits is dropped and `broken` is set.
    """

    def __init__(self, send: Callable[[bytes], Awaitable[None]], bound: int) -> None:
        self._send = send
        self._bound = bound
        self._parcels: deque[_Parcel] = deque()
        self._arrived = anyio.Event()
        self._moved = anyio.Event()
        self._broken = False
        self._on_broken: Callable[[], None] = _nothing
        self.waiting = 0
        """Bytes accepted and not yet written."""

    @property
    def broken(self) -> bool:
        return self._broken

    def on_broken(self, tell: Callable[[], None]) -> None:
        """`tell` is called once, when the client turns out to be gone."""
        self._on_broken = tell

    def post(self, line: bytes, on_gone: Callable[[], None] = _nothing) -> anyio.Event:
        """Accept a line. The event is set when it has been written or dropped."""
        parcel = _Parcel(line, on_gone)
        if self._broken:
            parcel.leave()
            return parcel.gone
        self.waiting += len(line)
        self._parcels.append(parcel)
        self._arrived.set()
        return parcel.gone

    async def room(self) -> None:
        """Wait until less than the bound is waiting. Returns at once when the client is gone."""
        await self._until(lambda: self.waiting < self._bound)

    async def drained(self) -> None:
        """Wait until nothing is waiting."""
        await self._until(lambda: not self.waiting)

    async def run(self) -> None:
        """Write until cancelled, or until the client is gone."""
        while not self._broken:
            if not self._parcels:
                self._arrived = anyio.Event()
                await self._arrived.wait()
            try:
                await self._send(self._parcels[0].line)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._break()
            else:
                self._depart(self._parcels.popleft())

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not (reached() or self._broken):
            await self._moved.wait()

    def _depart(self, parcel: _Parcel) -> None:
        self.waiting -= len(parcel.line)
        parcel.leave()
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    def _break(self) -> None:
        self._broken = True
        while self._parcels:
            self._depart(self._parcels.popleft())
        self._moved.set()
        self._on_broken()
