"""Waiting for a command: until it ends, has printed too much, or has had its time."""

from enum import Enum

import anyio

from mcp_dispatch.model.tools import Progress
from mcp_dispatch.processes.child import Child
from mcp_dispatch.processes.output_file import Recording
from mcp_dispatch.tools.bash import result__bash_text as bash_text

FIRST_PROGRESS_SECONDS = 2.0
PROGRESS_SECONDS = 1.0


class Watched(Enum):
    """Why the wait is over. After LATE and FULL the command still runs."""

    ENDED = "ended"
    LATE = "late"
    FULL = "full"


async def watch(
    child: Child, recording: Recording, seconds: float, progress: Progress | None = None
) -> Watched:
    """A wait that is cancelled ends the command, with everything it started."""
    watched = Watched.FULL
    try:
        with anyio.move_on_after(seconds) as limit:
            async with anyio.create_task_group() as beside:
                if progress is not None:
                    beside.start_soon(_tell_progress, recording, progress)
                beside.start_soon(_cancel_when, recording.stopped, beside.cancel_scope)
                await child.wait()
                watched = Watched.ENDED
                beside.cancel_scope.cancel()
    except BaseException:
        await child.stop()
        raise
    late = limit.cancelled_caught and watched is not Watched.ENDED
    return Watched.LATE if late else watched


async def _cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def _tell_progress(recording: Recording, progress: Progress) -> None:
    began = anyio.current_time()
    await anyio.sleep(FIRST_PROGRESS_SECONDS)
    while True:
        message = bash_text.last_line(recording) or f"{recording.size:,} bytes so far"
        elapsed = round(anyio.current_time() - began, 1)
        await progress({"progress": elapsed, "message": message})
        await anyio.sleep(PROGRESS_SECONDS)
