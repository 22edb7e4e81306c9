"""The progress of one call on its way to the client: in order of arrival, none after the result."""

from collections import deque
from typing import Final

import anyio

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import Progress

# A client that is this far behind gets the newest: a later progress says all an earlier one did.
_MAX_QUEUED: Final = 1_000


class ProgressQueue:
    """Filled while messages are read, which must not wait; emptied by a task beside the call."""

    def __init__(self, deliver: Progress) -> None:
        self._deliver = deliver
        self._queue: deque[JsonObject] = deque(maxlen=_MAX_QUEUED)
        self._finished = False
        self._wakeup = anyio.Event()

    def put(self, progress: JsonObject) -> None:
        self._queue.append(progress)
        self._wakeup.set()

    def finish(self) -> None:
        """Nothing more will come: `run` returns once all that waits has been delivered."""
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
