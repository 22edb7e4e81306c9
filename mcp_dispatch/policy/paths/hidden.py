"""The files that a search omits because a rule or a setting hides them."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.fs.resolve import PathAnchors, PathResolutionError, fold_case, resolve_all_names
from mcp_dispatch.policy.paths.index import PathIndex
from mcp_dispatch.policy.paths.rules import PathRules, PatternStart, iter_relative_paths


@dataclass(frozen=True, slots=True)
class _Spelling:
    """One path of a directory, relative to the start of a group of patterns.

    `always_checked` are the patterns that may cover any file in the directory.
    """

    index: PathIndex
    directory: str
    always_checked: tuple[int, ...]

    def covers(self, name: str) -> bool:
        path = f"{self.directory}/{name}" if self.directory else name
        candidates = (*self.always_checked, *self.index.find_name_candidates(self.directory, name))
        return any(self.index.covers(position, path) for position in candidates)


@dataclass(frozen=True, slots=True)
class _DirectoryState:
    """What applies to all files of a directory."""

    hidden: bool
    folds_case: bool
    spellings: tuple[_Spelling, ...] = ()

    def covers(self, name: str) -> bool:
        if self.hidden:
            return True
        key = fold_case(name) if self.folds_case else name
        return any(spelling.covers(key) for spelling in self.spellings)


class HiddenPaths:
    """A predicate for the paths of one search. It caches what it finds out about directories.

    `is_blocked` decides, given all names of a file, whether it is hidden for another reason than a
    rule.
    """

    def __init__(
        self, rules: PathRules, anchors: PathAnchors, is_blocked: Callable[[Sequence[Path]], bool]
    ) -> None:
        self._anchors = anchors
        self._is_blocked = is_blocked
        self._rules = rules
        self._starts = [(group, tuple(group.find_starts(anchors))) for group in rules.groups]
        self._link_targets = frozenset(
            start.directory for _, starts in self._starts for start in starts
        )
        self._directories: dict[str, _DirectoryState] = {}

    def __call__(self, path: Path) -> bool:
        """Return whether a search must omit the file; `path` is absolute."""
        text = str(path)
        directory, _, name = text.rpartition("/")
        state = self._directories.get(directory)
        if state is None:
            state = self._directories[directory] = self._inspect_directory(directory or "/", path)
        if state.covers(name):
            return True
        # A link is also its target, and a rule may name a link that leads to this file.
        may_be_linked = text in self._link_targets or os.path.islink(text)  # noqa: PTH114  (asked of every file)
        return may_be_linked and self._is_target_hidden(path)

    def _is_target_hidden(self, path: Path) -> bool:
        try:
            names = resolve_all_names(str(path), None, self._anchors.home)
        except PathResolutionError:
            return True
        return self._is_any_name_hidden(names)

    def _is_any_name_hidden(self, names: Sequence[Path]) -> bool:
        if self._is_blocked(names):
            return True
        return bool(self._rules.find_covering_any([names], self._anchors))

    def _inspect_directory(self, directory: str, path: Path) -> _DirectoryState:
        try:
            names = resolve_all_names(directory, None, self._anchors.home)
        except PathResolutionError:
            return _DirectoryState(hidden=True, folds_case=False)
        folds = self._anchors.is_case_insensitive(path)
        if self._is_any_name_hidden(names):
            return _DirectoryState(hidden=True, folds_case=folds)
        spellings = [
            _Spelling(index, relative, tuple(index.find_directory_candidates(relative)))
            for group, starts in self._starts
            for index in (group.get_folding_index() if folds else group.index,)
            for relative in _list_spellings(names, starts, fold=folds)
        ]
        return _DirectoryState(hidden=False, folds_case=folds, spellings=tuple(spellings))


def _list_spellings(
    names: Iterable[Path], starts: Sequence[PatternStart], *, fold: bool
) -> Iterable[str]:
    paths = (path for name in names for path in iter_relative_paths(str(name), starts, fold=fold))
    return dict.fromkeys(fold_case(path) if fold else path for path in paths)
