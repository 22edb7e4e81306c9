"""Processes whose parents have ended stay below the server: whoever detaches is still known by it.

Linux only. Elsewhere an orphan goes to the system's first process, and its line is lost.
"""

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

REAP_INTERVAL_SECONDS: Final = 5.0
_PR_SET_CHILD_SUBREAPER: Final = 36


def enable_subreaper() -> bool:
    """Makes this process the parent of every orphan among its descendants, for as long as it lives.

    Whoever does so has to `reap`: an orphan that ends stays a zombie until then.
    """
    if sys.platform != "linux":
        return False
    try:
        return ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


async def reap_forever() -> None:
    """For ever."""
    while True:
        await anyio.sleep(REAP_INTERVAL_SECONDS)
        reap_orphans()


def reap_orphans() -> None:
    """Takes the ended orphans off the list of processes, and nobody whom we have started: each of
    those leads a session of its own, or has ours, and whoever started it waits for it."""
    for pid in _list_children():
        with suppress(OSError, ValueError, IndexError):
            state, session = _read_state(pid)
            if state == b"Z" and session not in (pid, os.getsid(0)):
                os.waitpid(pid, os.WNOHANG)


def _list_children() -> list[int]:
    pids: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError, ValueError):
            pids += map(int, (task / "children").read_bytes().split())
    return pids


def _read_state(pid: int) -> tuple[bytes, int]:
    # After the name, which may hold anything: state, parent, group, session.
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return fields[0], int(fields[3])
