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
from mcp_dispatch.results.locks import hold_shared_lock
from mcp_dispatch.results.preview import encode_utf8, format_size
from mcp_dispatch.results.retention import Retention, prune

URI_PREFIX = "dispatch://results/"

CHUNK_SIZE = 1 << 20

_SUFFIX = re.compile(r"\.[a-z0-9]{1,8}")
_PARTIAL_SUFFIX = ".partial"
_ABANDONED_AFTER_SECONDS = 3600
_CREATE_FLAGS: int = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)

ContentSource = Callable[[], Iterator[bytes]]
"""Gives the content from its beginning, piece by piece, as often as it is called."""


class CannotStore(MCPDispatchError):
    """The file system would not take it; the message is the reason, in a few words."""


@dataclass(frozen=True, slots=True)
class StoredResult:
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

    def save(self, content: str | bytes | ContentSource, suffix: str = ".txt") -> StoredResult:
        """Writes the whole of it and waits for the disk: call it from a worker thread.

        Never more than a piece of a `Source` is in memory. Raises `CannotKeep`.
        """
        if not _SUFFIX.fullmatch(suffix):
            raise ValueError(f"a suffix is a dot and up to 8 of a-z and 0-9, got {suffix!r}")
        pieces = _as_source(content)
        name, size = _hash_content(pieces)
        kept = StoredResult(name, self.directory / f"{name}{suffix}", size)
        try:
            self.directory.mkdir(mode=0o700, exist_ok=True)
            if not self._is_stored(kept):
                self._make_room(size)
                self._write(kept, pieces)
        except OSError as problem:
            raise CannotStore(problem.strerror or str(problem)) from problem
        return kept

    def remove_abandoned(self) -> int:
        """Removes what writers that were killed left behind; how many. Called at the start."""
        before = time.time() - _ABANDONED_AFTER_SECONDS
        removed = 0
        for path in self.directory.glob(f".*{_PARTIAL_SUFFIX}"):
            with suppress(OSError):
                if path.lstat().st_mtime < before:
                    path.unlink()
                    removed += 1
        return removed

    def remove_expired(self) -> None:
        """What is past its age, and the oldest of what is too much. Called at the start."""
        with suppress(OSError):
            prune(self.directory, self.retention)

    def _make_room(self, size: int) -> None:
        most = self.retention.total_bytes
        if size > most:
            raise CannotStore(
                f"it is larger than all results together may be ({format_size(most)})"
            )
        prune(self.directory, self.retention, reserve_bytes=size)

    def _is_stored(self, stored: StoredResult) -> bool:
        # Nobody removes the file between our look at it and its new age.
        with hold_shared_lock(self.directory):
            return _touch_existing(stored)

    def _write(self, stored: StoredResult, source: ContentSource) -> None:
        """The final name appears only when every byte is on the disk."""
        partial = self.directory / f".{secrets.token_hex(16)}{_PARTIAL_SUFFIX}"
        try:
            _write_and_sync(partial, source)
            partial.replace(stored.path)
        finally:
            with suppress(OSError):
                partial.unlink()
        _sync_directory(self.directory)


def build_text_source(text: str) -> ContentSource:
    """The bytes of a text without a second copy of the whole of it in memory."""

    def read_pieces() -> Iterator[bytes]:
        for start in range(0, len(text), CHUNK_SIZE):
            yield encode_utf8(text[start : start + CHUNK_SIZE])

    return read_pieces


def _as_source(content: str | bytes | ContentSource) -> ContentSource:
    if isinstance(content, str):
        return build_text_source(content)
    if isinstance(content, bytes):
        return lambda: iter((content,))
    return content


def _hash_content(source: ContentSource) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for piece in source():
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest()[:32], size


def _touch_existing(stored: StoredResult) -> bool:
    """Whether the file stands as we left it. Its age starts anew: it has just been delivered."""
    try:
        status = stored.path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(status.st_mode) or status.st_size != stored.size:
        return False
    with suppress(PermissionError):
        os.utime(stored.path)
    return True


def _write_and_sync(path: Path, source: ContentSource) -> None:
    descriptor = os.open(path, _CREATE_FLAGS, 0o600)
    try:
        for piece in source():
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_directory(directory: Path) -> None:
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
