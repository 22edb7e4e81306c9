"""Whole results on disk, named by their content: never half written, never named by a caller."""

import errno
import hashlib
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.model.errors import MCPDispatchError
from mcp_dispatch.results.preview import utf8

_SUFFIX = re.compile(r"\.[a-z0-9]{1,8}")
_PARTIAL = ".partial"
_ABANDONED_AFTER_SECONDS = 3600
_EXCLUSIVELY: int = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class CannotKeep(MCPDispatchError):
    """The file system would not take it; the message is the reason, in a few words."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One kept result. `size` is in bytes."""

    id: str
    path: Path
    size: int


class ResultStore:
    """The results directory. Equal content is one file, whoever keeps it and however often."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()

    def keep(self, text: str | bytes, suffix: str = ".txt") -> Kept:
        """Writes the whole of `text` and waits for the disk: call it from a worker thread.

        Raises `CannotKeep`.
        """
        if not _SUFFIX.fullmatch(suffix):
            raise ValueError(f"a suffix is a dot and up to 8 of a-z and 0-9, got {suffix!r}")
        content = utf8(text) if isinstance(text, str) else text
        name = hashlib.sha256(content).hexdigest()[:32]
        kept = Kept(name, self._directory / f"{name}{suffix}", len(content))
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            if not _already_there(kept):
                self._write(kept.path, content)
        except OSError as problem:
            raise CannotKeep(problem.strerror or str(problem)) from problem
        return kept

    def remove_abandoned(self) -> int:
        """Removes what writers that were killed left behind; how many. Called at the start."""
        before = time.time() - _ABANDONED_AFTER_SECONDS
        removed = 0
        for path in self._directory.glob(f".*{_PARTIAL}"):
            with suppress(OSError):
                if path.lstat().st_mtime < before:
                    path.unlink()
                    removed += 1
        return removed

    def _write(self, path: Path, content: bytes) -> None:
        """The final name appears only when every byte is on the disk."""
        partial = self._directory / f".{secrets.token_hex(16)}{_PARTIAL}"
        try:
            _write_through(partial, content)
            partial.replace(path)
        finally:
            with suppress(OSError):
                partial.unlink()
        _write_directory_through(self._directory)


def _already_there(kept: Kept) -> bool:
    """Whether the file stands as we left it. Its age starts anew: it has just been delivered."""
    try:
        status = kept.path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(status.st_mode) or status.st_size != kept.size:
        return False
    with suppress(PermissionError):
        os.utime(kept.path)
    return True


def _write_through(path: Path, content: bytes) -> None:
    descriptor = os.open(path, _EXCLUSIVELY, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_directory_through(directory: Path) -> None:
    """Makes the new name itself durable, on systems where a directory can be synced."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
