"""Stores whole results in files that are written atomically and named by their content."""

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
"""Returns an iterator over the content; each call starts at the beginning."""


class CannotStore(MCPDispatchError):
    """The result could not be written; the message is a short reason."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result on disk. `size` is in bytes."""

    id: str
    path: Path
    size: int

    @property
    def uri(self) -> str:
        return URI_PREFIX + self.id


class ResultStore:
    """The results directory. Equal content is stored in one file, by all processes together."""

    def __init__(self, directory: Path, retention: Retention | None = None) -> None:
        self.directory = directory.absolute()
        self.retention = retention or Retention()

    def save(self, content: str | bytes | ContentSource, suffix: str = ".txt") -> StoredResult:
        """Write the content and sync it to disk: call it from a worker thread.

        A `ContentSource` is read in pieces, never as a whole. Raises `CannotStore`.
        """
        if not _SUFFIX.fullmatch(suffix):
            raise ValueError(f"a suffix is a dot and up to 8 of a-z and 0-9, got {suffix!r}")
        source = _as_source(content)
        name, size = _hash_content(source)
        stored = StoredResult(name, self.directory / f"{name}{suffix}", size)
        try:
            self.directory.mkdir(mode=0o700, exist_ok=True)
            if not self._is_stored(stored):
                self._make_room(size)
                self._write(stored, source)
        except OSError as error:
            raise CannotStore(error.strerror or str(error)) from error
        return stored

    def remove_abandoned(self) -> int:
        """Remove partial files of killed writers and return how many. Called at the start."""
        before = time.time() - _ABANDONED_AFTER_SECONDS
        removed = 0
        for path in self.directory.glob(f".*{_PARTIAL_SUFFIX}"):
            with suppress(OSError):
                if path.lstat().st_mtime < before:
                    path.unlink()
                    removed += 1
        return removed

    def remove_expired(self) -> None:
        """Apply the retention rules. Called at the start."""
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
        # The lock keeps the file from being removed between the check and the reset of its age.
        with hold_shared_lock(self.directory):
            return _touch_existing(stored)

    def _write(self, stored: StoredResult, source: ContentSource) -> None:
        """Write a partial file and rename it when all bytes are on disk."""
        partial = self.directory / f".{secrets.token_hex(16)}{_PARTIAL_SUFFIX}"
        try:
            _write_and_sync(partial, source)
            partial.replace(stored.path)
        finally:
            with suppress(OSError):
                partial.unlink()
        _sync_directory(self.directory)


def build_text_source(text: str) -> ContentSource:
    """Encode a text in pieces, so that no second copy of it is in memory."""

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
    """Return whether the file exists unchanged, and reset its age: it is delivered again."""
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
    """Make the new name durable, on systems where a directory can be synced."""
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
