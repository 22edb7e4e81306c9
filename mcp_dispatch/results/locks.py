"""Locks among the processes that share a results directory: who keeps, who removes, who reads."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def hold_shared_lock(directory: Path) -> Generator[None, None, None]:
    """While this is held, nothing in the directory is removed."""
    with _lock_directory(directory, exclusive=False):
        yield


@contextmanager
def hold_exclusive_lock(directory: Path) -> Generator[None, None, None]:
    """While this is held, nobody else counts on a file that is there."""
    with _lock_directory(directory, exclusive=True):
        yield


def lock_open_file(descriptor: int) -> None:
    """As long as the descriptor of a kept result is open, the file is not removed; and its age
    starts anew, so that it is still there for the next page."""
    with suppress(OSError):
        os.utime(descriptor)
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


def touch_stored_file(path: Path) -> None:
    """For who is about to have a kept result read by another program."""
    with suppress(OSError):
        os.utime(path, follow_symlinks=False)


def is_locked(path: Path) -> bool:
    """Whether somebody reads it at this moment."""
    if sys.platform == "win32":
        return False
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def _lock_directory(directory: Path, *, exclusive: bool) -> Generator[None, None, None]:
    # The directory itself is what is locked: a lock file could not be made on a full disk.
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)
