"""Removes stored results by age and total size, except those that a process is reading."""

import os
import re
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.results.locks import hold_exclusive_lock, is_locked

DAY_SECONDS = 24 * 60 * 60.0

_RESULT_FILE_NAME = re.compile(r"[0-9a-f]{32}\.[a-z0-9]{1,8}")


@dataclass(frozen=True, slots=True)
class Retention:
    """Files older than `days` are removed, and the oldest files beyond `total_bytes` in all."""

    days: float = 30
    total_bytes: int = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A stored result. `last_used` is when it was last stored, delivered or read (Unix time)."""

    path: Path
    size: int
    last_used: float

    @property
    def id(self) -> str:
        return self.path.stem


@dataclass(frozen=True, slots=True)
class PruneResult:
    removed: tuple[ResultFile, ...] = ()
    in_use: tuple[ResultFile, ...] = ()
    """Expired files that a process is reading."""


def list_result_files(directory: Path) -> list[ResultFile]:
    """Return the stored results, most recently used first; other files are ignored."""
    found: list[ResultFile] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if not _RESULT_FILE_NAME.fullmatch(entry.name):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append(ResultFile(Path(entry.path), status.st_size, status.st_mtime))
    return sorted(found, key=lambda each: (each.last_used, each.path.name), reverse=True)


def prune(
    directory: Path, retention: Retention, *, reserve_bytes: int = 0, now: float | None = None
) -> PruneResult:
    """Remove expired results, so that `reserve_bytes` more fit into the total size."""
    if not _select_expired(list_result_files(directory), retention, reserve_bytes, now):
        return PruneResult()
    # List again under the lock: a file may have been delivered again in the meantime.
    with hold_exclusive_lock(directory):
        return _remove(_select_expired(list_result_files(directory), retention, reserve_bytes, now))


def remove_all(directory: Path) -> PruneResult:
    with hold_exclusive_lock(directory):
        return _remove(list_result_files(directory))


def _select_expired(
    results: list[ResultFile], retention: Retention, reserve_bytes: int, now: float | None
) -> list[ResultFile]:
    """Return the results to remove, oldest first."""
    oldest = (time.time() if now is None else now) - retention.days * DAY_SECONDS
    left = retention.total_bytes - reserve_bytes
    overdue: list[ResultFile] = []
    for each in results:
        left -= each.size
        if left < 0 or each.last_used < oldest:
            overdue.append(each)
    return overdue[::-1]


def _remove(results: Iterable[ResultFile]) -> PruneResult:
    removed: list[ResultFile] = []
    in_use: list[ResultFile] = []
    for each in results:
        try:
            if is_locked(each.path):
                in_use.append(each)
                continue
            each.path.unlink()
        except OSError:
            continue
        removed.append(each)
    return PruneResult(tuple(removed), tuple(in_use))
