"""A client that asked for progress hears that its call waits for a person."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from mcp_dispatch.model.tools import Progress, no_progress

DEFAULT_TIMEOUT: Final = 50.0
"""Seconds. Common clients give up on a call at 60."""

HEARTBEAT: Final = 5.0


@asynccontextmanager
async def telling_that_we_wait(
    progress: Progress, every: float = HEARTBEAT
) -> AsyncGenerator[None, None]:
    if progress is no_progress:
        yield
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_beat, progress, every)
        yield
        tasks.cancel_scope.cancel()


async def _beat(progress: Progress, every: float) -> None:
    started = time.monotonic()
    while True:
        await anyio.sleep(every)
        waited = round(time.monotonic() - started)
        await progress({"progress": waited, "message": "waiting for approval"})
