"""Detects files that the scope has read and that a call has changed since."""

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mcp_dispatch.model.tools import FileSeen
from mcp_dispatch.results.markers import escape_markers

MAX_CHECKED_FILES = 1_000
MAX_NAMED_FILES = 20
_MAX_COMPARED_BYTES = 16 * 1024 * 1024

_FileStamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """Modification time and size of the files of a scope just before a call."""

    stamps: Mapping[str, _FileStamp | None]

    def find_touched(self) -> tuple[str, ...]:
        return tuple(path for path, before in self.stamps.items() if _read_stamp(path) != before)

    def find_changed(self, touched: Sequence[str], seen: Mapping[str, FileSeen]) -> dict[str, str]:
        """Return the digests of touched files whose content differs from what the scope has seen.

        A file that a tool of ours wrote is already recorded as seen. Reads the files: call it from
        a worker thread.
        """
        now = {path: _compute_digest(path) for path in touched if path in seen}
        return {path: digest for path, digest in now.items() if digest != seen[path].digest}


def take_snapshot(seen: Mapping[str, FileSeen]) -> FileSnapshot:
    """Take a snapshot of the most recently read files."""
    recent = list(seen)[-MAX_CHECKED_FILES:]
    return FileSnapshot({path: _read_stamp(path) for path in recent})


def format_stale_hint(paths: tuple[str, ...]) -> str:
    """Return the reminder for the model."""
    more = f"\n- and {len(paths) - MAX_NAMED_FILES} more" if len(paths) > MAX_NAMED_FILES else ""
    named = "".join(f"\n- {_escape_path(path)}" for path in paths[:MAX_NAMED_FILES])
    return (
        "<system-reminder>This call changed files that were read before. What is known of them is "
        f"out of date; read them again before editing:{named}{more}</system-reminder>"
    )


def _escape_path(path: str) -> str:
    """Escape a file name, which may contain anything, even the closing tag of the reminder."""
    return escape_markers(path if path.isprintable() else ascii(path))


def _read_stamp(path: str) -> _FileStamp | None:
    try:
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116  (no Path for each of many)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)


def _compute_digest(path: str) -> str:
    """Return a digest of the content, so that a new time on the same bytes is no change.

    For a large file, or something that is no regular file, time and size are used instead.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_COMPARED_BYTES:
            return f"{status.st_mode} {status.st_mtime_ns} {status.st_size}"
        return hashlib.sha256(file.read(_MAX_COMPARED_BYTES)).hexdigest()
