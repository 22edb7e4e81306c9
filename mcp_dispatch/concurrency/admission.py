"""Slots for calls: shared calls run side by side up to a limit, an exclusive call runs alone, in
order of arrival."""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from mcp_dispatch.model.tools import Sharing

DEFAULT_LIMIT = 10


@dataclass(slots=True, eq=False)
class _Waiter:
    sharing: Sharing
    granted: anyio.Event = field(default_factory=anyio.Event)
    cancelled: bool = False


class Admission:
    """The queue of one scope. Calls keep their order: `[R R W R R]` runs as `[R R] [W] [R R]`."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._shared = 0
        self._exclusive = False
        self._queue: deque[_Waiter] = deque()

    @property
    def running(self) -> int:
        return self._shared + self._exclusive

    @property
    def waiting(self) -> int:
        return sum(not waiter.cancelled for waiter in self._queue)

    @asynccontextmanager
    async def acquire_slot(
        self, sharing: Sharing, *, deferred: bool = False
    ) -> AsyncGenerator["Slot", None]:
        """`deferred`: do not queue now; the caller acquires the slot with
        `Slot.ensure_acquired`."""
        slot = Slot(self, sharing)
        if not deferred:
            await slot.acquire()
        try:
            yield slot
        finally:
            slot.release()

    async def enter(self, sharing: Sharing) -> None:
        waiter = _Waiter(sharing)
        self._queue.append(waiter)
        self._admit()
        try:
            await checkpoint_if_cancelled()
            await waiter.granted.wait()
        except BaseException:
            waiter.cancelled = True
            # Granted and cancelled in the same turn of the event loop: the slot has to be returned.
            if waiter.granted.is_set():
                self.leave(sharing)
            else:
                self._admit()
            raise

    def leave(self, sharing: Sharing) -> None:
        if sharing is Sharing.SHARED:
            self._shared -= 1
        else:
            self._exclusive = False
        self._admit()

    def _admit(self) -> None:
        while self._queue:
            head = self._queue[0]
            if not head.cancelled and not self._can_run(head.sharing):
                return
            self._queue.popleft()
            if not head.cancelled:
                self._grant(head)

    def _can_run(self, sharing: Sharing) -> bool:
        if self._exclusive:
            return False
        return self._shared < self._limit if sharing is Sharing.SHARED else self._shared == 0

    def _grant(self, waiter: _Waiter) -> None:
        if waiter.sharing is Sharing.SHARED:
            self._shared += 1
        else:
            self._exclusive = True
        waiter.granted.set()


class Slot:
    """The right to run. It can be released while a person is asked, and acquired again at the end
    of the queue."""

    def __init__(self, admission: Admission, sharing: Sharing) -> None:
        self._admission = admission
        self._sharing = sharing
        self._held = False

    async def acquire(self) -> None:
        await self._admission.enter(self._sharing)
        self._held = True

    async def ensure_acquired(self) -> None:
        """Acquire the slot if it is not held."""
        if not self._held:
            await self.acquire()

    async def change_sharing(self, sharing: Sharing) -> None:
        """Release the slot and queue again, because a rewrite has changed the sharing of the
        call."""
        if sharing is self._sharing:
            return
        held = self._held
        self.release()
        self._sharing = sharing
        if held:
            await self.acquire()

    def release(self) -> None:
        if self._held:
            self._held = False
            self._admission.leave(self._sharing)
