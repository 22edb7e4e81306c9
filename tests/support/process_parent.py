"""A minimal server: starts a shell with children that are hard to end, and waits to be killed.

Prints the run's id and the watchdog's process id once all of them are up.
"""

import os
import signal
from pathlib import Path
from subprocess import PIPE
from types import FrameType

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_dispatch.processes.children import ProcessGroup

STUBBORN = """
(echo up; exec sleep 600) &
(trap '' TERM; echo up; sleep 600; sleep 600) &
setsid bash -c 'echo up; exec sleep 600' &
wait
"""


def take_no_notice(number: int, frame: FrameType | None) -> None:
    """A handler instead of SIG_IGN, which the children would inherit."""


async def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, take_no_notice)
    async with ProcessGroup() as children:
        child = await children.spawn(
            ["bash", "-c", STUBBORN], cwd=Path("/"), env=os.environ, stdout=PIPE
        )
        assert child.stdout is not None
        lines = BufferedByteReceiveStream(child.stdout)
        for _ in range(3):
            await lines.receive_until(b"\n", 100)
        os.write(1, f"{children.run_id} {children.watchdog_pid}\n".encode())
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main)
