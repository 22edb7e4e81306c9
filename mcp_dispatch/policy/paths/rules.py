"""Path rules of one list, found by the files that they speak of."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mcp_dispatch.fs.resolve import Places, ends_of, folded, relative
from mcp_dispatch.policy.paths.index import PathIndex
from mcp_dispatch.policy.paths.pattern import Anchor, Base, PathPattern


@dataclass(slots=True)
class _Branch:
    """A directory that rules spell, and what they spell in it."""

    inner: dict[str, "_Branch"] = field(default_factory=lambda: {})


@dataclass(frozen=True, slots=True)
class Start:
    """A directory, and what rules call it from their anchor on."""

    spelled: str
    place: str


class Detours:
    """The links among the beginnings of many patterns.

    A directory is looked through again only when it has changed, so that a thousand rules cost no
    more than one question for each directory in which they name something.
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._root = _Branch()
        self._seen: dict[tuple[str, int], tuple[tuple[int, ...], list[tuple[str, bool]]]] = {}
        for prefix in prefixes:
            branch = self._root
            for part in filter(None, prefix.split("/")):
                branch = branch.inner.setdefault(part, _Branch())

    def under(self, anchor: Path) -> list[Start]:
        """Those below a real directory."""
        return list(self._follow(self._root, "", str(anchor).rstrip("/"), 0))

    def _follow(self, branch: _Branch, spelled: str, place: str, links: int) -> Iterator[Start]:
        for name, is_link in self._present(branch, place or "/"):
            longer = f"{spelled}/{name}" if spelled else name
            there = f"{place}/{name}"
            if is_link:
                there = str(ends_of(Path(there))[-1])
                yield Start(longer, there)
            # A link may lead back to where it stands.
            if branch.inner[name].inner and links < 8:
                yield from self._follow(branch.inner[name], longer, there, links + is_link)

    def _present(self, branch: _Branch, place: str) -> list[tuple[str, bool]]:
        """The names of the branch that exist there, and whether they are links."""
        if not branch.inner:
            return []
        try:
            found = os.stat(place)  # noqa: PTH116  (once for each directory, in every decision)
        except OSError:
            return []
        state = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        key = (place, id(branch))
        known = self._seen.get(key)
        if known is None or known[0] != state:
            known = self._seen[key] = (state, _looked_up(branch.inner, place))
        return known[1]


def _looked_up(names: Iterable[str], place: str) -> list[tuple[str, bool]]:
    present: list[tuple[str, bool]] = []
    for name in names:
        try:
            mode = os.lstat(f"{place.rstrip('/')}/{name}").st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            present.append((name, stat.S_ISLNK(mode)))
    return present


@dataclass(slots=True)
class Group:
    """The patterns that start from the same base; `positions` are theirs among all."""

    base: Base
    patterns: list[PathPattern]
    positions: list[int]
    wide: bool
    index: PathIndex
    detours: Detours
    _folding: PathIndex | None = None

    def folding(self) -> PathIndex:
        """For file systems that take `A` for `a`."""
        if self._folding is None:
            texts = [pattern.wide if self.wide else pattern.tight for pattern in self.patterns]
            self._folding = PathIndex(texts, literally=self.wide, folding=True)
        return self._folding

    def anchors(self, places: Places) -> list[Path]:
        match self.base.anchor:
            case Anchor.ROOT:
                found = [Path("/")]
            case Anchor.HOME:
                found = [places.home]
            case Anchor.SOURCE:
                found = [self.base.source]
            case Anchor.DIRECTORY:
                found = list(places.directories)
        return [_climbed(anchor, self.base.climbs) for anchor in found]

    def starts(self, places: Places) -> Iterator[Start]:
        """Where deny and ask begin: each anchor under all its names, and the links in it."""
        for anchor in dict.fromkeys(self.anchors(places) or [Path("/")]):
            ends = places.ends(anchor)
            for end in ends:
                yield Start("", str(end))
            yield from self.detours.under(ends[-1])


class PathRules:
    """The patterns of some rules, known by their position.

    `wide` is how deny and ask read them: one name of a file is enough. An allow needs them all.
    """

    def __init__(self, patterns: Mapping[int, PathPattern], *, wide: bool) -> None:
        self.groups = tuple(_grouped(patterns, wide))

    def __bool__(self) -> bool:
        return bool(self.groups)

    def covering_any(self, files: Sequence[Sequence[Path]], places: Places) -> set[int]:
        """The patterns that speak of some name of a file, in any case that is the same file."""
        if not files:
            return set()
        names = dict.fromkeys(name for file in files for name in file)
        return {
            position
            for group in self.groups
            for position in _speaking(group, names, list(group.starts(places)), places)
        }

    def covering_all(self, names: Sequence[Path], places: Places) -> set[int]:
        """The patterns that each cover all names of the file."""
        found: set[int] | None = None
        for name in names:
            here = {position for group in self.groups for position in _tightly(group, name, places)}
            found = here if found is None else found & here
            if not found:
                return set()
        return found or set()


def _speaking(
    group: Group, names: Iterable[Path], starts: Sequence[Start], places: Places
) -> Iterator[int]:
    for name in names:
        fold = places.folds(name)
        index = group.folding() if fold else group.index
        for spelled in relatives(str(name), starts, fold=fold):
            yield from (group.positions[at] for at in index.find(spelled))


def relatives(name: str, starts: Iterable[Start], *, fold: bool) -> Iterator[str]:
    """The path as patterns may spell it, from each place where they start."""
    path = folded(name) if fold else name
    for start in starts:
        beyond = relative(path, folded(start.place) if fold else start.place)
        if beyond is not None:
            yield f"{start.spelled}/{beyond}".strip("/")


def _tightly(group: Group, name: Path, places: Places) -> Iterator[int]:
    path = str(name)
    for anchor in () if group.base.climbs else group.anchors(places):
        for end in places.ends(anchor):
            found = relative(path, str(end))
            if found is not None:
                yield from (group.positions[at] for at in group.index.find(found))
    if group.base.anchor is Anchor.ROOT:
        yield from _through_the_top(group, path, places)


def _through_the_top(group: Group, path: str, places: Places) -> Iterator[int]:
    """An allow that spells a link at the top of the file system (`/tmp` on macOS) follows it."""
    for link, target in places.tops().items():
        beyond = relative(path, str(target))
        if beyond is None:
            continue
        for at in group.index.find(f"{link}/{beyond}" if beyond else link):
            if group.patterns[at].prefix.partition("/")[0] == link:
                yield group.positions[at]


def _climbed(anchor: Path, levels: int) -> Path:
    for _ in range(levels):
        anchor = anchor.parent
    return anchor


def _grouped(patterns: Mapping[int, PathPattern], wide: bool) -> Iterator[Group]:
    members: dict[Base, list[int]] = {}
    for position, pattern in patterns.items():
        members.setdefault(pattern.base, []).append(position)
    for base, positions in members.items():
        chosen = [patterns[position] for position in positions]
        texts = [pattern.wide if wide else pattern.tight for pattern in chosen]
        prefixes = (pattern.prefix for pattern in chosen) if wide else ()
        index = PathIndex(texts, literally=wide)
        yield Group(base, chosen, positions, wide, index, Detours(prefixes))
