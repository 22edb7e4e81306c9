"""Our standard input and output as private descriptors, out of reach of stray prints."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

from mcp_dispatch.wire.fds import duplicate


@contextmanager
def standard_descriptors() -> Generator[tuple[int | None, int | None]]:
    """Private duplicates of fd 0 and 1; meanwhile 0 reads nothing and 1 is standard error.

    None stands for a stream that was closed when the interpreter started: its number may belong
    to anybody by now, so it is left alone.
    """
    stdin = _take(0, _open_null(os.O_RDONLY)) if sys.__stdin__ is not None else None
    stdout = _take(1, _open_stray()) if sys.__stdout__ is not None else None
    try:
        yield stdin, stdout
    finally:
        # What was printed meanwhile belongs on standard error, not into the client's stream.
        if sys.stdout is not None:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
        _give_back(stdin, 0)
        _give_back(stdout, 1)


def _open_null(flags: int) -> int:
    return os.open(os.devnull, flags)


def _open_stray() -> int:
    try:
        return os.dup(2)
    except OSError:
        return _open_null(os.O_WRONLY)


def _take(fd: int, instead: int) -> int | None:
    try:
        private = duplicate(fd)
    except OSError:
        os.close(instead)
        return None
    os.dup2(instead, fd)
    os.close(instead)
    return private


def _give_back(private: int | None, fd: int) -> None:
    if private is None:
        return
    os.dup2(private, fd)
    os.close(private)
