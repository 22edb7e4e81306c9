"""Where servers and terminals meet: one socket per server in the state directory's `run/`."""

import os
import secrets
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

LONGEST: Final = 100
"""Bytes of a socket's path: systems take 104 or 108, with a zero at the end."""

LONGEST_LINE: Final = 1_000_000
_ENDING: Final = ".approvals.sock"


def new_socket(run: Path) -> Path:
    """The name says whose it is; nobody had it before."""
    return run / f"{os.getpid()}-{secrets.token_hex(4)}{_ENDING}"


def sockets_in(run: Path) -> list[Path]:
    return sorted(run.glob(f"*{_ENDING}"))


def server_of(path: Path) -> int | None:
    """The process that a socket's name names."""
    number = path.name.partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() else None


def servers_in(run: Path) -> frozenset[int]:
    return frozenset(pid for path in sockets_in(run) if (pid := server_of(path)) is not None)


@contextmanager
def short_path(path: Path) -> Generator[str]:
    """A name for the socket that is not too long for the system, where there is one."""
    if len(os.fsencode(path)) <= LONGEST or sys.platform != "linux":
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def remove_stale(run: Path) -> None:
    """Takes away what servers left behind that could not end in order."""
    for path in sockets_in(run):
        if is_stale(path):
            with suppress(OSError):
                path.unlink()


def is_stale(path: Path) -> bool:
    """Whether nobody listens any more."""
    with socket.socket(socket.AF_UNIX) as probe, short_path(path) as name:
        probe.setblocking(False)
        try:
            probe.connect(name)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
