"""Private files of the user, replaced atomically."""

import os
import secrets
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600

LOCK_TIMEOUT_SECONDS: Final = 5.0
"""How long to wait for another process; a write takes milliseconds."""

_RETRY_SECONDS: Final = 0.01


def create_private_directory(path: Path) -> None:
    """Create the directory `path`, and its parent, accessible only to its owner."""
    path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    path.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
    path.chmod(_DIRECTORY_MODE)


def replace_file(path: Path, content: bytes) -> None:
    """Replace the file atomically: a reader sees the old content or the new content."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        _create(beside, content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def lock_file(path: Path, timeout: float = LOCK_TIMEOUT_SECONDS) -> Generator[None]:
    """Hold a lock between processes. Raise `TimeoutError`. Blocks its thread."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, _FILE_MODE)
    try:
        _lock(descriptor, path, time.monotonic() + timeout)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, deadline: float) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"another process holds {path}") from None
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _create(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(path, flags, _FILE_MODE), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
