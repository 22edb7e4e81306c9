"""One walk for Glob: from directory to directory by descriptor, never through a link."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from mcp_dispatch.tools.search.gitignore import Ignored
from mcp_dispatch.tools.search.glob_pattern import Level, Pattern, Positions
from mcp_dispatch.tools.search.root import Sight, below

DEEPEST = 200
"""Directories that are open at the same time; what lies deeper counts as unreadable."""
_SPARE = 10_000


@dataclass(frozen=True, slots=True)
class Found:
    """`newest` files first, as names from the start; `total` is how many there were."""

    newest: tuple[str, ...]
    total: int
    unreadable: int
    complete: bool


class Walk:
    """`ignored` is None where .gitignore files do not count. Blocks; `expired` ends it early."""

    def __init__(
        self,
        pattern: Pattern,
        sight: Sight,
        limit: int,
        expired: Callable[[], bool],
        *,
        hidden: bool = True,
        ignored: Ignored | None = None,
    ) -> None:
        self._pattern = pattern
        self._sight = sight
        self._limit = limit
        self._expired = expired
        self._hidden = hidden
        self._ignored = ignored
        self._levels: dict[Positions, Level] = {}
        self._hits: list[tuple[int, str]] = []
        self._total = 0
        self._unreadable = 0
        self._complete = True

    def run(self, descriptor: int) -> Found:
        self._directory(descriptor, "", 0, self._pattern.start(), self._ignored)
        self._forget_old()
        newest = tuple(name for _, name in self._hits)
        return Found(newest, self._total, self._unreadable, self._complete)

    def _directory(
        self,
        descriptor: int,
        prefix: str,
        depth: int,
        positions: Positions,
        ignored: Ignored | None,
    ) -> None:
        inner = None if ignored is None else ignored.below(descriptor, depth)
        try:
            onward = self._listed(descriptor, prefix, self._level(positions), inner)
        except OSError:
            self._unreadable += 1
            return
        for name, further in onward:
            self._descend(descriptor, prefix, name, depth, further, inner)

    def _listed(
        self, descriptor: int, prefix: str, level: Level, ignored: Ignored | None
    ) -> list[tuple[str, Positions]]:
        """Notes the files and gives the directories that may hold more."""
        onward: list[tuple[str, Positions]] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if self._expired():
                    self._complete = False
                    return []
                is_directory = entry.is_dir(follow_symlinks=False)
                if self._left_out(prefix + entry.name, entry.name, is_directory, ignored):
                    continue
                if not is_directory and level.takes(entry.name):
                    self._note(descriptor, prefix, entry)
                elif is_directory and (further := self._onward(prefix, entry.name, level)):
                    onward.append((entry.name, further))
        return onward

    def _onward(self, prefix: str, name: str, level: Level) -> Positions:
        further = level.below(name)
        return further if further and self._sight.enters(prefix + name) else frozenset()

    def _left_out(
        self, relative: str, name: str, is_directory: bool, ignored: Ignored | None
    ) -> bool:
        if not self._hidden and name.startswith("."):
            return True
        return ignored is not None and ignored.covers(relative, is_directory=is_directory)

    def _descend(
        self,
        descriptor: int,
        prefix: str,
        name: str,
        depth: int,
        positions: Positions,
        ignored: Ignored | None,
    ) -> None:
        if not self._complete:
            return
        if depth == DEEPEST:
            self._unreadable += 1
            return
        try:
            inner = below(descriptor, name)
        except FileNotFoundError:
            return
        except OSError:
            self._unreadable += 1
            return
        try:
            self._directory(inner, f"{prefix}{name}/", depth + 1, positions, ignored)
        finally:
            os.close(inner)

    def _note(self, descriptor: int, prefix: str, entry: os.DirEntry[str]) -> None:
        relative = prefix + entry.name
        link = entry.is_symlink()
        if not (self._sight.shows_link(relative) if link else self._sight.shows(relative)):
            return
        try:
            status = os.stat(entry.name, dir_fd=descriptor, follow_symlinks=link)
        except OSError:
            return
        if not stat.S_ISREG(status.st_mode):
            return
        self._total += 1
        self._hits.append((-status.st_mtime_ns, relative))
        if len(self._hits) > self._limit + _SPARE:
            self._forget_old()

    def _forget_old(self) -> None:
        self._hits.sort()
        del self._hits[self._limit :]

    def _level(self, positions: Positions) -> Level:
        if positions not in self._levels:
            self._levels[positions] = Level(self._pattern, positions)
        return self._levels[positions]
