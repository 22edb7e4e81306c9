"""The calls of one server that are going on, and who runs beside whom."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from mcp_dispatch.concurrency.admission import Admission
from mcp_dispatch.model.tools import Sharing
from mcp_dispatch.upstream.config.model import ServerConfig

# More than any client keeps open at once.
_UNBOUNDED = 1_000_000


class OpenCalls:
    """At most `maxConcurrency` at a time, and one at a time where a call must be alone among those
    of its server. The others wait here, in order; the scope's own order is not touched."""

    def __init__(self, config: ServerConfig) -> None:
        self._admission = Admission(config.max_concurrency or _UNBOUNDED)
        self._open_count = 0
        self._idle = anyio.Event()
        self._idle.set()

    @asynccontextmanager
    async def admit(self, *, exclusive: bool) -> AsyncGenerator[None, None]:
        self._open_count += 1
        if self._open_count == 1:
            self._idle = anyio.Event()
        try:
            async with self._admission.acquire_slot(
                Sharing.EXCLUSIVE if exclusive else Sharing.SHARED
            ):
                yield
        finally:
            self._open_count -= 1
            if not self._open_count:
                self._idle.set()

    async def wait_until_idle(self) -> None:
        """Waits until no call is open."""
        while self._open_count:
            await self._idle.wait()
