"""Path rules, and which of them cover a file under any of its names."""

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
    """A directory in the literal prefixes of patterns, with the names below it."""

    children: dict[str, "_PrefixNode"] = field(default_factory=lambda: {})


@dataclass(frozen=True, slots=True)
class PatternStart:
    """A directory, and the prefix under which patterns contain it, relative to their anchor."""

    pattern_prefix: str
    directory: str


class SymlinkIndex:
    """The links in the literal prefixes of many patterns.

    A directory is scanned again only after it has changed, so that a decision costs one `stat` for
    each directory in the prefixes, however many rules there are.
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._root = _PrefixNode()
        self._entries: dict[tuple[str, int], tuple[tuple[int, ...], list[tuple[str, bool]]]] = {}
        for prefix in prefixes:
            node = self._root
            for part in filter(None, prefix.split("/")):
                node = node.children.setdefault(part, _PrefixNode())

    def find_links(self, anchor: Path) -> list[PatternStart]:
        """Return the links below a directory whose path contains no links."""
        return list(self._follow(self._root, "", str(anchor).rstrip("/"), 0))

    def _follow(
        self, node: _PrefixNode, prefix: str, directory: str, link_count: int
    ) -> Iterator[PatternStart]:
        for name, is_link in self._list_existing(node, directory or "/"):
            name_prefix = f"{prefix}/{name}" if prefix else name
            target = f"{directory}/{name}"
            if is_link:
                target = str(resolve_or_keep(Path(target))[-1])
                yield PatternStart(name_prefix, target)
            # A link may lead back to its own directory.
            if node.children[name].children and link_count < 8:
                yield from self._follow(
                    node.children[name], name_prefix, target, link_count + is_link
                )

    def _list_existing(self, node: _PrefixNode, directory: str) -> list[tuple[str, bool]]:
        """Return the names of the node that exist in the directory, and whether they are links."""
        if not node.children:
            return []
        try:
            status = os.stat(directory)  # noqa: PTH116  (once for each directory, in every decision)
        except OSError:
            return []
        state = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        key = (directory, id(node))
        cached = self._entries.get(key)
        if cached is None or cached[0] != state:
            cached = self._entries[key] = (state, _stat_names(node.children, directory))
        return cached[1]


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
    """The patterns with the same base, and their `positions` in the list of rules."""

    base: PatternBase
    patterns: list[PathPattern]
    positions: list[int]
    wide: bool
    index: PathIndex
    symlinks: SymlinkIndex
    _folding_index: PathIndex | None = None

    def get_folding_index(self) -> PathIndex:
        """Return an index for file systems that ignore case."""
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
        """Yield where deny and ask patterns start: all names of each anchor, and links below it."""
        for anchor in dict.fromkeys(self.find_anchors(anchors) or [Path("/")]):
            ends = anchors.resolve(anchor)
            for end in ends:
                yield PatternStart("", str(end))
            yield from self.symlinks.find_links(ends[-1])


class PathRules:
    """The patterns of some rules, identified by their position.

    `wide` is for deny and ask: a pattern that covers one name of a file covers the file. An allow
    pattern must cover all names.
    """

    def __init__(self, patterns: Mapping[int, PathPattern], *, wide: bool) -> None:
        self.groups = tuple(_group_patterns(patterns, wide))

    def __bool__(self) -> bool:
        return bool(self.groups)

    def find_covering_any(self, files: Sequence[Sequence[Path]], anchors: PathAnchors) -> set[int]:
        """Return the patterns that cover some name of a file; case is ignored if its system does."""
        if not files:
            return set()
        names = dict.fromkeys(name for file in files for name in file)
        return {
            position
            for group in self.groups
            for position in _match_wide(group, names, list(group.find_starts(anchors)), anchors)
        }

    def find_covering_all(self, names: Sequence[Path], anchors: PathAnchors) -> set[int]:
        """Return the patterns that cover all names of the file."""
        found: set[int] | None = None
        for name in names:
            covering = {
                position
                for group in self.groups
                for position in _match_narrow(group, name, anchors)
            }
            found = covering if found is None else found & covering
            if not found:
                return set()
        return found or set()


def _match_wide(
    group: PatternGroup, names: Iterable[Path], starts: Sequence[PatternStart], anchors: PathAnchors
) -> Iterator[int]:
    for name in names:
        fold = anchors.is_case_insensitive(name)
        index = group.get_folding_index() if fold else group.index
        for relative_path in iter_relative_paths(str(name), starts, fold=fold):
            yield from (group.positions[member] for member in index.find(relative_path))


def iter_relative_paths(name: str, starts: Iterable[PatternStart], *, fold: bool) -> Iterator[str]:
    """Yield the path relative to each start below which it lies, as patterns contain it."""
    path = fold_case(name) if fold else name
    for start in starts:
        remainder = to_relative(path, fold_case(start.directory) if fold else start.directory)
        if remainder is not None:
            yield f"{start.pattern_prefix}/{remainder}".strip("/")


def _match_narrow(group: PatternGroup, name: Path, anchors: PathAnchors) -> Iterator[int]:
    path = str(name)
    for anchor in () if group.base.parent_levels else group.find_anchors(anchors):
        for end in anchors.resolve(anchor):
            found = to_relative(path, str(end))
            if found is not None:
                yield from (group.positions[index] for index in group.index.find(found))
    if group.base.anchor is Anchor.ROOT:
        yield from _match_top_level_links(group, path, anchors)


def _match_top_level_links(group: PatternGroup, path: str, anchors: PathAnchors) -> Iterator[int]:
    """Match allow patterns that begin with a link below the root, as `/tmp` is on macOS."""
    for link, target in anchors.list_root_links().items():
        remainder = to_relative(path, str(target))
        if remainder is None:
            continue
        for index in group.index.find(f"{link}/{remainder}" if remainder else link):
            if group.patterns[index].prefix.partition("/")[0] == link:
                yield group.positions[index]


def _resolve_parent(anchor: Path, levels: int) -> Path:
    for _ in range(levels):
        anchor = anchor.parent
    return anchor


def _group_patterns(patterns: Mapping[int, PathPattern], wide: bool) -> Iterator[PatternGroup]:
    members: dict[PatternBase, list[int]] = {}
    for position, pattern in patterns.items():
        members.setdefault(pattern.base, []).append(position)
    for base, positions in members.items():
        group = [patterns[position] for position in positions]
        texts = [pattern.wide if wide else pattern.narrow for pattern in group]
        prefixes = (pattern.prefix for pattern in group) if wide else ()
        index = PathIndex(texts, wide=wide)
        yield PatternGroup(base, group, positions, wide, index, SymlinkIndex(prefixes))
