"""The directory walk of Glob. It uses descriptors and never follows a link to a directory."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from mcp_dispatch.tools.search.gitignore import GitignoreStack
from mcp_dispatch.tools.search.glob_pattern import GlobPattern, PatternLevel, Positions
from mcp_dispatch.tools.search.root import SearchFilter, open_directory

MAX_DEPTH = 200
"""Maximum of open directories; deeper ones count as unreadable."""
_SORT_SLACK = 10_000


@dataclass(frozen=True, slots=True)
class WalkResult:
    """`newest`: relative paths, the newest first; `total`: the number of all matches."""

    newest: tuple[str, ...]
    total: int
    unreadable: int
    complete: bool


class DirectoryWalk:
    """Blocks; `is_expired` ends it early. A `gitignore` of None means that none is respected."""

    def __init__(
        self,
        pattern: GlobPattern,
        search_filter: SearchFilter,
        limit: int,
        is_expired: Callable[[], bool],
        *,
        include_hidden: bool = True,
        gitignore: GitignoreStack | None = None,
    ) -> None:
        self._pattern = pattern
        self._search_filter = search_filter
        self._limit = limit
        self._is_expired = is_expired
        self._include_hidden = include_hidden
        self._gitignore = gitignore
        self._levels: dict[Positions, PatternLevel] = {}
        self._files: list[tuple[int, str]] = []
        self._total = 0
        self._unreadable = 0
        self._is_complete = True

    def run(self, descriptor: int) -> WalkResult:
        self._walk_directory(
            descriptor, "", 0, self._pattern.find_start_positions(), self._gitignore
        )
        self._drop_oldest()
        newest = tuple(name for _, name in self._files)
        return WalkResult(newest, self._total, self._unreadable, self._is_complete)

    def _walk_directory(
        self,
        descriptor: int,
        prefix: str,
        depth: int,
        positions: Positions,
        gitignore: GitignoreStack | None,
    ) -> None:
        inner = None if gitignore is None else gitignore.enter_directory(descriptor, depth)
        try:
            subdirectories = self._scan_entries(
                descriptor, prefix, self._get_level(positions), inner
            )
        except OSError:
            self._unreadable += 1
            return
        for name, inner_positions in subdirectories:
            self._walk_subdirectory(descriptor, prefix, name, depth, inner_positions, inner)

    def _scan_entries(
        self, descriptor: int, prefix: str, level: PatternLevel, gitignore: GitignoreStack | None
    ) -> list[tuple[str, Positions]]:
        """Record matching files; return the subdirectories to walk, with their positions."""
        subdirectories: list[tuple[str, Positions]] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if self._is_expired():
                    self._is_complete = False
                    return []
                is_directory = entry.is_dir(follow_symlinks=False)
                if self._is_excluded(prefix + entry.name, entry.name, is_directory, gitignore):
                    continue
                if not is_directory and level.matches(entry.name):
                    self._record_file(descriptor, prefix, entry)
                elif is_directory and (positions := self._enter_pattern(prefix, entry.name, level)):
                    subdirectories.append((entry.name, positions))
        return subdirectories

    def _enter_pattern(self, prefix: str, name: str, level: PatternLevel) -> Positions:
        positions = level.enter_directory(name)
        if positions and self._search_filter.can_enter(prefix + name):
            return positions
        return frozenset()

    def _is_excluded(
        self, relative: str, name: str, is_directory: bool, gitignore: GitignoreStack | None
    ) -> bool:
        if not self._include_hidden and name.startswith("."):
            return True
        return gitignore is not None and gitignore.covers(relative, is_directory=is_directory)

    def _walk_subdirectory(
        self,
        descriptor: int,
        prefix: str,
        name: str,
        depth: int,
        positions: Positions,
        gitignore: GitignoreStack | None,
    ) -> None:
        if not self._is_complete:
            return
        if depth == MAX_DEPTH:
            self._unreadable += 1
            return
        try:
            inner = open_directory(descriptor, name)
        except FileNotFoundError:
            return
        except OSError:
            self._unreadable += 1
            return
        try:
            self._walk_directory(inner, f"{prefix}{name}/", depth + 1, positions, gitignore)
        finally:
            os.close(inner)

    def _record_file(self, descriptor: int, prefix: str, entry: os.DirEntry[str]) -> None:
        relative = prefix + entry.name
        link = entry.is_symlink()
        if not (
            self._search_filter.is_link_visible(relative)
            if link
            else self._search_filter.is_visible(relative)
        ):
            return
        try:
            status = os.stat(entry.name, dir_fd=descriptor, follow_symlinks=link)
        except OSError:
            return
        if not stat.S_ISREG(status.st_mode):
            return
        self._total += 1
        self._files.append((-status.st_mtime_ns, relative))
        if len(self._files) > self._limit + _SORT_SLACK:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._files.sort()
        del self._files[self._limit :]

    def _get_level(self, positions: Positions) -> PatternLevel:
        if positions not in self._levels:
            self._levels[positions] = PatternLevel(self._pattern, positions)
        return self._levels[positions]
