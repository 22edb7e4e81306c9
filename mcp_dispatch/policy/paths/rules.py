"""Path rules of one list, found by the files that they speak of."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mcp_dispatch.fs.resolve import PathAnchors, fold_case, resolve_or_keep, to_relative
from mcp_dispatch.policy.paths.index import PathIndex
from mcp_dispatch.policy.paths.pattern import Anchor, PathPattern, PatternBase


@dataclass(slots=True)
class _PrefixNode:
    """A directory that rules spell, and what they spell in it."""

    children: dict[str, "_PrefixNode"] = field(default_factory=lambda: {})


@dataclass(frozen=True, slots=True)
class PatternStart:
    """A directory, and what rules call it from their anchor on."""

    pattern_prefix: str
    directory: str


class SymlinkIndex:
    """The links among the beginnings of many patterns.

    A directory is looked through again only when it has changed, so that a thousand rules cost no
    more than one question for each directory in which they name something.
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._root = _PrefixNode()
        self._entries: dict[tuple[str, int], tuple[tuple[int, ...], list[tuple[str, bool]]]] = {}
        for prefix in prefixes:
            branch = self._root
            for part in filter(None, prefix.split("/")):
                branch = branch.children.setdefault(part, _PrefixNode())

    def find_links(self, anchor: Path) -> list[PatternStart]:
        """Those below a real directory."""
        return list(self._follow(self._root, "", str(anchor).rstrip("/"), 0))

    def _follow(
        self, node: _PrefixNode, prefix: str, directory: str, link_count: int
    ) -> Iterator[PatternStart]:
        for name, is_link in self._list_existing(node, directory or "/"):
            longer = f"{prefix}/{name}" if prefix else name
            there = f"{directory}/{name}"
            if is_link:
                there = str(resolve_or_keep(Path(there))[-1])
                yield PatternStart(longer, there)
            # A link may lead back to where it stands.
            if node.children[name].children and link_count < 8:
                yield from self._follow(node.children[name], longer, there, link_count + is_link)

    def _list_existing(self, node: _PrefixNode, directory: str) -> list[tuple[str, bool]]:
        """The names of the branch that exist there, and whether they are links."""
        if not node.children:
            return []
        try:
            found = os.stat(directory)  # noqa: PTH116  (once for each directory, in every decision)
        except OSError:
            return []
        state = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        key = (directory, id(node))
        known = self._entries.get(key)
        if known is None or known[0] != state:
            known = self._entries[key] = (state, _stat_names(node.children, directory))
        return known[1]


def _stat_names(names: Iterable[str], directory: str) -> list[tuple[str, bool]]:
    present: list[tuple[str, bool]] = []
    for name in names:
        try:
            mode = os.lstat(f"{directory.rstrip('/')}/{name}").st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            present.append((name, stat.S_ISLNK(mode)))
    return present


@dataclass(slots=True)
class PatternGroup:
    """The patterns that start from the same base; `positions` are theirs among all."""

    base: PatternBase
    patterns: list[PathPattern]
    positions: list[int]
    wide: bool
    index: PathIndex
    symlinks: SymlinkIndex
    _folding_index: PathIndex | None = None

    def get_folding_index(self) -> PathIndex:
        """For file systems that take `A` for `a`."""
        if self._folding_index is None:
            texts = [pattern.wide if self.wide else pattern.narrow for pattern in self.patterns]
            self._folding_index = PathIndex(texts, wide=self.wide, ignore_case=True)
        return self._folding_index

    def find_anchors(self, anchors: PathAnchors) -> list[Path]:
        match self.base.anchor:
            case Anchor.ROOT:
                found = [Path("/")]
            case Anchor.HOME:
                found = [anchors.home]
            case Anchor.SOURCE:
                found = [self.base.source]
            case Anchor.DIRECTORY:
                found = list(anchors.directories)
        return [_resolve_parent(anchor, self.base.parent_levels) for anchor in found]

    def find_starts(self, anchors: PathAnchors) -> Iterator[PatternStart]:
        """Where deny and ask begin: each anchor under all its names, and the links in it."""
        for anchor in dict.fromkeys(self.find_anchors(anchors) or [Path("/")]):
            ends = anchors.resolve(anchor)
            for end in ends:
                yield PatternStart("", str(end))
            yield from self.symlinks.find_links(ends[-1])


class PathRules:
    """The patterns of some rules, known by their position.

    `wide` is how deny and ask read them: one name of a file is enough. An allow needs them all.
    """

    def __init__(self, patterns: Mapping[int, PathPattern], *, wide: bool) -> None:
        self.groups = tuple(_group_patterns(patterns, wide))

    def __bool__(self) -> bool:
        return bool(self.groups)

    def find_covering_any(self, files: Sequence[Sequence[Path]], anchors: PathAnchors) -> set[int]:
        """The patterns that speak of some name of a file, in any case that is the same file."""
        if not files:
            return set()
        names = dict.fromkeys(name for file in files for name in file)
        return {
            position
            for group in self.groups
            for position in _match_wide(group, names, list(group.find_starts(anchors)), anchors)
        }

    def find_covering_all(self, names: Sequence[Path], anchors: PathAnchors) -> set[int]:
        """The patterns that each cover all names of the file."""
        found: set[int] | None = None
        for name in names:
            here = {
                position
                for group in self.groups
                for position in _match_narrow(group, name, anchors)
            }
            found = here if found is None else found & here
            if not found:
                return set()
        return found or set()


def _match_wide(
    group: PatternGroup, names: Iterable[Path], starts: Sequence[PatternStart], anchors: PathAnchors
) -> Iterator[int]:
    for name in names:
        fold = anchors.is_case_insensitive(name)
        index = group.get_folding_index() if fold else group.index
        for spelled in iter_relative_paths(str(name), starts, fold=fold):
            yield from (group.positions[at] for at in index.find(spelled))


def iter_relative_paths(name: str, starts: Iterable[PatternStart], *, fold: bool) -> Iterator[str]:
    """The path as patterns may spell it, from each place where they start."""
    path = fold_case(name) if fold else name
    for start in starts:
        beyond = to_relative(path, fold_case(start.directory) if fold else start.directory)
        if beyond is not None:
            yield f"{start.pattern_prefix}/{beyond}".strip("/")


def _match_narrow(group: PatternGroup, name: Path, anchors: PathAnchors) -> Iterator[int]:
    path = str(name)
    for anchor in () if group.base.parent_levels else group.find_anchors(anchors):
        for end in anchors.resolve(anchor):
            found = to_relative(path, str(end))
            if found is not None:
                yield from (group.positions[at] for at in group.index.find(found))
    if group.base.anchor is Anchor.ROOT:
        yield from _match_top_level_links(group, path, anchors)


def _match_top_level_links(group: PatternGroup, path: str, anchors: PathAnchors) -> Iterator[int]:
    """An allow that spells a link at the top of the file system (`/tmp` on macOS) follows it."""
    for link, target in anchors.list_root_links().items():
        beyond = to_relative(path, str(target))
        if beyond is None:
            continue
        for at in group.index.find(f"{link}/{beyond}" if beyond else link):
            if group.patterns[at].prefix.partition("/")[0] == link:
                yield group.positions[at]


def _resolve_parent(anchor: Path, levels: int) -> Path:
    for _ in range(levels):
        anchor = anchor.parent
    return anchor


def _group_patterns(patterns: Mapping[int, PathPattern], wide: bool) -> Iterator[PatternGroup]:
    members: dict[PatternBase, list[int]] = {}
    for position, pattern in patterns.items():
        members.setdefault(pattern.base, []).append(position)
    for base, positions in members.items():
        chosen = [patterns[position] for position in positions]
        texts = [pattern.wide if wide else pattern.narrow for pattern in chosen]
        prefixes = (pattern.prefix for pattern in chosen) if wide else ()
        index = PathIndex(texts, wide=wide)
        yield PatternGroup(base, chosen, positions, wide, index, SymlinkIndex(prefixes))
