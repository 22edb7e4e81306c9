"""The open calls of one server, and which of them may run at the same time."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from mcp_dispatch.concurrency.admission import Admission
from mcp_dispatch.model.tools import Sharing
from mcp_dispatch.upstream.config.model import ServerConfig

# More calls than any client has open at once.
_UNBOUNDED = 1_000_000


class OpenCalls:
    """Admits at most `maxConcurrency` calls at a time; an exclusive call runs alone on its server.

    Calls wait here in order of arrival. The order within a scope is decided elsewhere.
    """

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
        """Wait until no call is open."""
        while self._open_count:
            await self._idle.wait()
