"""Whole results on disk, named by their content: never half written, never named by a caller."""

import errno
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.model.errors import MCPDispatchError
from mcp_dispatch.results.locks import shared
from mcp_dispatch.results.preview import human_size, utf8
from mcp_dispatch.results.retention import Retention, prune

URI_PREFIX = "dispatch://results/"

CHUNK = 1 << 20

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

Source = Callable[[], Iterator[bytes]]
"""Gives the content from its beginning, piece by piece, as often as it is called."""


class CannotKeep(MCPDispatchError):
    """The file system would not take it; the message is the reason, in a few words."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One kept result. `size` is in bytes."""

    id: str
    path: Path
    size: int

    @property
    def uri(self) -> str:
        return URI_PREFIX + self.id


class ResultStore:
    """The results directory. Equal content is one file, whoever keeps it and however often."""

    def __init__(self, directory: Path, retention: Retention | None = None) -> None:
        self.directory = directory.absolute()
        self.retention = retention or Retention()

    def keep(self, content: str | bytes | Source, suffix: str = ".txt") -> Kept:
        """Writes the whole of it and waits for the disk: call it from a worker thread.

        Never more than a piece of a `Source` is in memory. Raises `CannotKeep`.
        """
        if not _SUFFIX.fullmatch(suffix):
            raise ValueError(f"a suffix is a dot and up to 8 of a-z and 0-9, got {suffix!r}")
        pieces = _pieces_of(content)
        name, size = _measured(pieces)
        kept = Kept(name, self.directory / f"{name}{suffix}", size)
        try:
            self.directory.mkdir(mode=0o700, exist_ok=True)
            if not self._already_there(kept):
                self._make_room(size)
                self._write(kept, pieces)
        except OSError as problem:
            raise CannotKeep(problem.strerror or str(problem)) from problem
        return kept

    def remove_abandoned(self) -> int:
        """Removes what writers that were killed left behind; how many. Called at the start."""
        before = time.time() - _ABANDONED_AFTER_SECONDS
        removed = 0
        for path in self.directory.glob(f".*{_PARTIAL}"):
            with suppress(OSError):
                if path.lstat().st_mtime < before:
                    path.unlink()
                    removed += 1
        return removed

    def remove_old(self) -> None:
        """What is past its age, and the oldest of what is too much. Called at the start."""
        with suppress(OSError):
            prune(self.directory, self.retention)

    def _make_room(self, size: int) -> None:
        most = self.retention.total_bytes
        if size > most:
            raise CannotKeep(f"it is larger than all results together may be ({human_size(most)})")
        prune(self.directory, self.retention, room_for=size)

    def _already_there(self, kept: Kept) -> bool:
        # Nobody removes the file between our look at it and its new age.
        with shared(self.directory):
            return _stands(kept)

    def _write(self, kept: Kept, pieces: Source) -> None:
        """The final name appears only when every byte is on the disk."""
        partial = self.directory / f".{secrets.token_hex(16)}{_PARTIAL}"
        try:
            _write_through(partial, pieces)
            partial.replace(kept.path)
        finally:
            with suppress(OSError):
                partial.unlink()
        _write_directory_through(self.directory)


def text_source(text: str) -> Source:
    """The bytes of a text without a second copy of the whole of it in memory."""

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(text), CHUNK):
            yield utf8(text[start : start + CHUNK])

    return pieces


def _pieces_of(content: str | bytes | Source) -> Source:
    if isinstance(content, str):
        return text_source(content)
    if isinstance(content, bytes):
        return lambda: iter((content,))
    return content


def _measured(pieces: Source) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for piece in pieces():
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest()[:32], size


def _stands(kept: Kept) -> bool:
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


def _write_through(path: Path, pieces: Source) -> None:
    descriptor = os.open(path, _EXCLUSIVELY, 0o600)
    try:
        for piece in pieces():
            rest = memoryview(piece)
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
