"""Which files a search leaves out: those that nothing may show."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.fs.resolve import Places, Unresolvable, folded, names_of
from mcp_dispatch.policy.paths.index import PathIndex
from mcp_dispatch.policy.paths.rules import PathRules, Start, relatives


@dataclass(frozen=True, slots=True)
class _Spelling:
    """A directory as the patterns of one group spell it, and those that may mean a file in it."""

    index: PathIndex
    directory: str
    always: tuple[int, ...]

    def covers(self, name: str) -> bool:
        path = f"{self.directory}/{name}" if self.directory else name
        candidates = (*self.always, *self.index.for_name(self.directory, name))
        return any(self.index.covers(at, path) for at in candidates)


@dataclass(frozen=True, slots=True)
class _Directory:
    """What is known of a directory, whatever file in it is asked about."""

    hidden: bool
    folds: bool
    spellings: tuple[_Spelling, ...] = ()

    def covers(self, name: str) -> bool:
        if self.hidden:
            return True
        spelled = folded(name) if self.folds else name
        return any(spelling.covers(spelled) for spelling in self.spellings)


class Hiding:
    """Answers for as long as one search takes: what it learns of a directory it does not ask again.

    `closed` says of all names of a place whether it is hidden for another reason than a rule.
    """

    def __init__(
        self, rules: PathRules, places: Places, closed: Callable[[Sequence[Path]], bool]
    ) -> None:
        self._places = places
        self._closed = closed
        self._rules = rules
        self._starts = [(group, tuple(group.starts(places))) for group in rules.groups]
        self._linked = frozenset(start.place for _, every in self._starts for start in every)
        self._known: dict[str, _Directory] = {}

    def __call__(self, path: Path) -> bool:
        """`path` is absolute."""
        text = str(path)
        directory, _, name = text.rpartition("/")
        known = self._known.get(directory)
        if known is None:
            known = self._known[directory] = self._look_at(directory or "/", path)
        if known.covers(name):
            return True
        # A link is also what it leads to, and a rule may name a link that leads to this very file.
        special = text in self._linked or os.path.islink(text)  # noqa: PTH114  (asked of every file)
        return special and self._hides_any(path)

    def _hides_any(self, path: Path) -> bool:
        try:
            names = names_of(str(path), None, self._places.home)
        except Unresolvable:
            return True
        return self._closed(names) or bool(self._rules.covering_any([names], self._places))

    def _look_at(self, directory: str, path: Path) -> _Directory:
        try:
            names = names_of(directory, None, self._places.home)
        except Unresolvable:
            return _Directory(hidden=True, folds=False)
        hidden = self._closed(names) or bool(self._rules.covering_any([names], self._places))
        folds = self._places.folds(path)
        if hidden:
            return _Directory(hidden, folds)
        spellings = [
            _Spelling(index, spelled, tuple(index.for_directory(spelled)))
            for group, starts in self._starts
            for index in (group.folding() if folds else group.index,)
            for spelled in _spelled(names, starts, fold=folds)
        ]
        return _Directory(hidden, folds, tuple(spellings))


def _spelled(names: Iterable[Path], starts: Sequence[Start], *, fold: bool) -> Iterable[str]:
    found = (spelled for name in names for spelled in relatives(str(name), starts, fold=fold))
    return dict.fromkeys(folded(spelled) if fold else spelled for spelled in found)
