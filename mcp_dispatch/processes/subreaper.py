"""Keep orphaned descendants as children of the server, so detached processes stay known.

Linux only. Elsewhere the first process of the system adopts orphans.
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
    """Make this process the parent of every orphan among its descendants. Return whether it worked.

    The caller must run `reap_forever`: an ended orphan stays a zombie until it is reaped.
    """
    if sys.platform != "linux":
        return False
    try:
        return ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


async def reap_forever() -> None:
    """Reap ended orphans regularly until cancelled."""
    while True:
        await anyio.sleep(REAP_INTERVAL_SECONDS)
        reap_orphans()


def reap_orphans() -> None:
    """Reap ended orphans, but no process that we started: each of those leads a session or has ours,
    and its starter waits for it.
    """
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
