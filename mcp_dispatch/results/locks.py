"""Locks between processes that write, remove and read files of one results directory."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def hold_shared_lock(directory: Path) -> Generator[None, None, None]:
    """Keep other processes from removing files of the directory."""
    with _lock_directory(directory, exclusive=False):
        yield


@contextmanager
def hold_exclusive_lock(directory: Path) -> Generator[None, None, None]:
    """Wait until no other process holds a lock; then files may be removed."""
    with _lock_directory(directory, exclusive=True):
        yield


def lock_open_file(descriptor: int) -> None:
    """Keep the file from being removed while the descriptor is open.

    Its age is reset too, so that the file still exists when the next page is read.
    """
    with suppress(OSError):
        os.utime(descriptor)
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)


def touch_stored_file(path: Path) -> None:
    """Reset the age of a stored result before another program reads it."""
    with suppress(OSError):
        os.utime(path, follow_symlinks=False)


def is_locked(path: Path) -> bool:
    """Return whether a process is reading the file now."""
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
    # The lock is on the directory: a lock file could not be created on a full disk.
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)
