"""Who is at the other end of a Unix socket: a person's process, or one that a server started."""

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcp_dispatch.processes.kill_tree import MARKER

_MARK: Final = f"\0{MARKER}=".encode()
_DEEPEST: Final = 1000
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_LOCAL_PEERPID: Final = 2
_PS_SECONDS: Final = 5.0


class CannotTell(Exception):
    """Who it is cannot be found out; they are then nobody to listen to."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A process, by number and start: numbers are used again."""

    pid: int
    uid: int
    started: str


@dataclass(frozen=True, slots=True)
class _Status:
    parent: int
    started: str


def peer_of(connection: socket.socket) -> Peer:
    """Raises `CannotTell`."""
    try:
        pid, uid = _credentials(connection)
    except (OSError, struct.error) as error:
        raise CannotTell(f"the other end has no credentials: {error}") from error
    if pid <= 0:
        raise CannotTell("the other end is in another process namespace")
    return Peer(pid, uid, _status(pid).started)


def why_unfit(peer: Peer, servers: Collection[int]) -> str | None:
    """Why this process may not answer questions; None where it may.

    It must be of this user and alive, and neither it nor whoever started it may be a server, one
    of `servers`, or carry the mark of what a server has started.
    """
    if peer.uid != os.geteuid():
        return "it belongs to another user"
    try:
        line = list(_line(peer.pid))
        if not line or line[0][1].started != peer.started:
            return "it is gone"
        if any(pid in servers for pid, _ in line):
            return "it was started by an mcp-dispatch server"
        if _is_marked(peer.pid) or any(_is_surely_marked(pid) for pid, _ in line[1:]):
            return "it carries the mark of an mcp-dispatch server"
    except CannotTell as reason:
        return f"it cannot be checked: {reason}"
    return None


def _credentials(connection: socket.socket) -> tuple[int, int]:
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
            raise CannotTell("its credentials have an unknown form")
        return pid, uid
    raise CannotTell("this system does not say who is at the other end")


def _line(pid: int) -> Iterator[tuple[int, _Status]]:
    """The process, its parent, and so on."""
    for _ in range(_DEEPEST):
        if pid <= 0:
            return
        status = _status(pid)
        yield pid, status
        pid = status.parent
    raise CannotTell("its line of parents does not end")


def _status(pid: int) -> _Status:
    if sys.platform == "linux":
        try:
            content = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError as error:
            raise CannotTell(f"process {pid}: {error.strerror}") from error
        # After the name, which may hold anything: state, parent, …, and start as the 20th.
        fields = content.rpartition(b")")[2].split()
        return _Status(int(fields[1]), fields[19].decode())
    parent, _, started = _ps("ppid=,lstart=", pid).strip().partition(" ")
    if not parent.isdigit():
        raise CannotTell(f"process {pid} is gone")
    return _Status(int(parent), started)


def _is_marked(pid: int) -> bool:
    if sys.platform == "linux":
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError as error:
            raise CannotTell(f"process {pid}: {error.strerror}") from error
        return _MARK in b"\0" + environ
    return f" {MARKER}=" in _ps("command=", pid, "-E")


def _is_surely_marked(pid: int) -> bool:
    """Of who stands further up: many are other users' and keep their environment to themselves."""
    try:
        return _is_marked(pid)
    except CannotTell:
        return False


def _ps(columns: str, pid: int, *more: str) -> str:
    command = ["/bin/ps", *more, "-ww", "-o", columns, "-p", str(pid)]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=_PS_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError, UnicodeError) as error:
        raise CannotTell(f"process {pid}: {error}") from error
    return done.stdout
