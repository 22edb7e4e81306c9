"""Identifies the peer process of a Unix socket, and rejects processes that a server has started."""

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcp_dispatch.processes.kill_tree import MARKER_VARIABLE

_MARKER_ENTRY: Final = f"\0{MARKER_VARIABLE}=".encode()
_MAX_ANCESTORS: Final = 1000
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_LOCAL_PEERPID: Final = 2
_PS_TIMEOUT_SECONDS: Final = 5.0


class PeerCheckError(Exception):
    """The peer process could not be identified, so it is rejected."""


@dataclass(frozen=True, slots=True)
class PeerProcess:
    """A process, identified by pid and start time, because pids are reused."""

    pid: int
    uid: int
    start_time: str


@dataclass(frozen=True, slots=True)
class _ProcessStatus:
    parent_pid: int
    start_time: str


def identify_peer(connection: socket.socket) -> PeerProcess:
    """Return the process at the other end of the connection. Raises `PeerCheckError`."""
    try:
        pid, uid = _read_credentials(connection)
    except (OSError, struct.error) as error:
        raise PeerCheckError(f"the other end has no credentials: {error}") from error
    if pid <= 0:
        raise PeerCheckError("the other end is in another process namespace")
    return PeerProcess(pid, uid, _read_status(pid).start_time)


def find_peer_problem(peer: PeerProcess, server_pids: Collection[int]) -> str | None:
    """Return why this process may not answer questions, or None if it may.

    It must be alive and belong to this user. Neither it nor an ancestor may be one of
    `server_pids` or have the marker variable that servers set for the processes they start.
    """
    if peer.uid != os.geteuid():
        return "it belongs to another user"
    try:
        processes = list(_walk_ancestors(peer.pid))
        if not processes or processes[0][1].start_time != peer.start_time:
            return "it is gone"
        if any(pid in server_pids for pid, _ in processes):
            return "it was started by an mcp-dispatch server"
        if _has_marker(peer.pid) or any(_has_readable_marker(pid) for pid, _ in processes[1:]):
            return "it carries the mark of an mcp-dispatch server"
    except PeerCheckError as reason:
        return f"it cannot be checked: {reason}"
    return None


def _read_credentials(connection: socket.socket) -> tuple[int, int]:
    if sys.platform == "linux":
        layout = struct.Struct("3i")
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, layout.size)
        pid, uid, _ = layout.unpack(raw)
        return pid, uid
    if sys.platform == "darwin":
        (pid,) = struct.unpack("i", connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))
        # struct xucred: version, uid, number of groups, groups.
        version, uid = struct.unpack_from(
            "=II", connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)
        )
        if version != 0:
            raise PeerCheckError("its credentials have an unknown form")
        return pid, uid
    raise PeerCheckError("this system does not say who is at the other end")


def _walk_ancestors(pid: int) -> Iterator[tuple[int, _ProcessStatus]]:
    """Yield the process, its parent, and so on, with their status."""
    for _ in range(_MAX_ANCESTORS):
        if pid <= 0:
            return
        status = _read_status(pid)
        yield pid, status
        pid = status.parent_pid
    raise PeerCheckError("its line of parents does not end")


def _read_status(pid: int) -> _ProcessStatus:
    if sys.platform == "linux":
        try:
            content = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError as error:
            raise PeerCheckError(f"process {pid}: {error.strerror}") from error
        # The name may contain anything, so fields are split after its `)`: state, parent, …; the
        # start time is the 20th.
        fields = content.rpartition(b")")[2].split()
        return _ProcessStatus(int(fields[1]), fields[19].decode())
    parent, _, started = _run_ps("ppid=,lstart=", pid).strip().partition(" ")
    if not parent.isdigit():
        raise PeerCheckError(f"process {pid} is gone")
    return _ProcessStatus(int(parent), started)


def _has_marker(pid: int) -> bool:
    if sys.platform == "linux":
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError as error:
            raise PeerCheckError(f"process {pid}: {error.strerror}") from error
        return _MARKER_ENTRY in b"\0" + environ
    return f" {MARKER_VARIABLE}=" in _run_ps("command=", pid, "-E")


def _has_readable_marker(pid: int) -> bool:
    """Return False for a process of another user, whose environment cannot be read."""
    try:
        return _has_marker(pid)
    except PeerCheckError:
        return False


def _run_ps(columns: str, pid: int, *options: str) -> str:
    command = ["/bin/ps", *options, "-ww", "-o", columns, "-p", str(pid)]
    try:
        completed = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=_PS_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError, UnicodeError) as error:
        raise PeerCheckError(f"process {pid}: {error}") from error
    return completed.stdout
