"""How long kept results stay: by age, by their total size, and never less than their reader needs."""

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
    """What is older than `days`, and the oldest of what is more than `total_bytes`, is removed."""

    days: float = 30
    total_bytes: int = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A kept result as it lies there. `used` is when it was last kept, delivered or read."""

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
    """They should have gone, but somebody is reading them."""


def list_result_files(directory: Path) -> list[ResultFile]:
    """The kept results, the most recently used first. Anything else in the directory is not ours."""
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
    """Removes what need not be kept any longer, so that `room_for` more bytes are within bounds."""
    if not _select_expired(list_result_files(directory), retention, reserve_bytes, now):
        return PruneResult()
    # Looked at again under the lock: meanwhile one of them may have been delivered anew.
    with hold_exclusive_lock(directory):
        return _remove(_select_expired(list_result_files(directory), retention, reserve_bytes, now))


def remove_all(directory: Path) -> PruneResult:
    with hold_exclusive_lock(directory):
        return _remove(list_result_files(directory))


def _select_expired(
    results: list[ResultFile], retention: Retention, reserve_bytes: int, now: float | None
) -> list[ResultFile]:
    """The oldest first."""
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
