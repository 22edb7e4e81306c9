"""The journal file: each record is one line, appended with a single write; a failure never affects
a call."""

import errno
import json
import logging
import os
import re
import secrets
import stat
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from mcp_dispatch.model.json import JsonObject

RETENTION_DAYS = 30
_FILE_NAME = re.compile(r"\d{4}-\d{2}-\d{2}-\d+-[0-9a-f]{16}\.jsonl")
_OPEN_FLAGS: int = (
    os.O_WRONLY
    | os.O_APPEND
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)

_log = logging.getLogger(__name__)


class Journal:
    """The file of this process in the journal directory, which other processes share.

    A record that cannot be written does not fail the call: it is counted in `lost`, and the first
    problem is logged.
    """

    def __init__(self, directory: Path) -> None:
        today = datetime.now(UTC).date().isoformat()
        self.path = directory.absolute() / f"{today}-{os.getpid()}-{secrets.token_hex(8)}.jsonl"
        self.lost = 0
        self._logged = False
        self._descriptor: int | None = None
        remove_old_files(directory, days=RETENTION_DAYS)
        try:
            self._ensure_open()
        except OSError as problem:
            self._log_once(problem.strerror or str(problem))

    async def record(self, entry: JsonObject) -> None:
        """Append `entry` as one line.

        It writes directly: a write to the page cache takes about ten microseconds, a worker thread
        several times that. The method never waits, so a cancelled call is recorded too.
        """
        try:
            self._append(_format_line(entry))
        except OSError as problem:
            self._count_lost(problem.strerror or str(problem))
        except (TypeError, ValueError, RecursionError) as problem:
            self._count_lost(f"the record is not JSON: {problem}")

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _ensure_open(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, _OPEN_FLAGS, 0o600)
        return self._descriptor

    def _append(self, line: bytes) -> None:
        """Write the line at once. If the disk is full, remove the part that was written: the file
        has complete lines only."""
        descriptor = self._ensure_open()
        written = os.write(descriptor, line)
        if written < len(line):
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _count_lost(self, reason: str) -> None:
        self.lost += 1
        self._log_once(reason)

    def _log_once(self, reason: str) -> None:
        if not self._logged:
            self._logged = True
            _log.warning("calls are not recorded: cannot write %s: %s", self.path, reason)


def _format_line(entry: JsonObject) -> bytes:
    """Escape every control and non-ASCII character, so that every reader sees one line."""
    return json.dumps(entry, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def remove_old_files(directory: Path, days: int) -> int:
    """Remove journal files that were last written more than `days` ago; return their number."""
    before = time.time() - days * 86_400
    removed = 0
    with suppress(OSError):
        for path in directory.iterdir():
            removed += _FILE_NAME.fullmatch(path.name) is not None and _remove_if_older(
                path, before
            )
    return removed


def _remove_if_older(path: Path, before: float) -> bool:
    """Another process may remove the same file at the same time."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_mtime >= before:
            return False
        path.unlink()
    except OSError:
        return False
    return True
