"""Delivers the progress of one call in order of arrival, and none after the result."""

from collections import deque
from typing import Final

import anyio

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import Progress

# A client that is this far behind misses the oldest: later progress includes what they reported.
_MAX_QUEUED: Final = 1_000


class ProgressQueue:
    """Filled without waiting while messages are read; a task of the call delivers the entries."""

    def __init__(self, deliver: Progress) -> None:
        self._deliver = deliver
        self._queue: deque[JsonObject] = deque(maxlen=_MAX_QUEUED)
        self._finished = False
        self._wakeup = anyio.Event()

    def put(self, progress: JsonObject) -> None:
        self._queue.append(progress)
        self._wakeup.set()

    def finish(self) -> None:
        """Accept no more progress: `run` returns once all entries are delivered."""
        self._finished = True
        self._wakeup.set()

    async def run(self) -> None:
        while True:
            while self._queue:
                await self._deliver(self._queue.popleft())
            if self._finished:
                return
            self._wakeup = anyio.Event()
            await self._wakeup.wait()
