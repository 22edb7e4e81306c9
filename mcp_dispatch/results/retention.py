"""How long kept results stay: by age, by their total size, and never less than their reader needs."""

import os
import re
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.results.locks import exclusive, is_held

DAY_SECONDS = 24 * 60 * 60.0

_KEPT_NAME = re.compile(r"[0-9a-f]{32}\.[a-z0-9]{1,8}")


@dataclass(frozen=True, slots=True)
class Retention:
    """What is older than `days`, and the oldest of what is more than `total_bytes`, is removed."""

    days: float = 30
    total_bytes: int = 2 * 1024**3


@dataclass(frozen=True, slots=True)
class Shelved:
    """A kept result as it lies there. `used` is when it was last kept, delivered or read."""

    path: Path
    size: int
    used: float

    @property
    def id(self) -> str:
        return self.path.stem


@dataclass(frozen=True, slots=True)
class Pruned:
    removed: tuple[Shelved, ...] = ()
    in_use: tuple[Shelved, ...] = ()
    """They should have gone, but somebody is reading them."""


def shelved(directory: Path) -> list[Shelved]:
    """The kept results, the most recently used first. Anything else in the directory is not ours."""
    found: list[Shelved] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if not _KEPT_NAME.fullmatch(entry.name):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append(Shelved(Path(entry.path), status.st_size, status.st_mtime))
    return sorted(found, key=lambda each: (each.used, each.path.name), reverse=True)


def prune(
    directory: Path, retention: Retention, *, room_for: int = 0, now: float | None = None
) -> Pruned:
    """Removes what need not be kept any longer, so that `room_for` more bytes are within bounds."""
    if not _overdue(shelved(directory), retention, room_for, now):
        return Pruned()
    # Looked at again under the lock: meanwhile one of them may have been delivered anew.
    with exclusive(directory):
        return _remove(_overdue(shelved(directory), retention, room_for, now))


def remove_all(directory: Path) -> Pruned:
    with exclusive(directory):
        return _remove(shelved(directory))


def _overdue(
    results: list[Shelved], retention: Retention, room_for: int, now: float | None
) -> list[Shelved]:
    """The oldest first."""
    oldest = (time.time() if now is None else now) - retention.days * DAY_SECONDS
    left = retention.total_bytes - room_for
    overdue: list[Shelved] = []
    for each in results:
        left -= each.size
        if left < 0 or each.used < oldest:
            overdue.append(each)
    return overdue[::-1]


def _remove(results: Iterable[Shelved]) -> Pruned:
    removed: list[Shelved] = []
    in_use: list[Shelved] = []
    for each in results:
        try:
            if is_held(each.path):
                in_use.append(each)
                continue
            each.path.unlink()
        except OSError:
            continue
        removed.append(each)
    return Pruned(tuple(removed), tuple(in_use))
