"""Many gitignore patterns at once: a path is tried only on those that name a part of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mcp_dispatch.fs.resolve import fold_case
from mcp_dispatch.policy.paths.pattern import (
    CompiledPattern,
    compile_pattern,
    extract_literal_prefix,
    is_literal,
)


@dataclass(slots=True)
class _AffixIndex:
    """Patterns by the letters that one part of a path must begin or end with."""

    by_text: dict[str, list[int]] = field(default_factory=lambda: {})
    lengths: set[int] = field(default_factory=lambda: set[int]())

    def add(self, text: str, position: int) -> None:
        self.by_text.setdefault(text, []).append(position)
        self.lengths.add(len(text))


class PathIndex:
    """Patterns of one anchor, known by their position.

    Every pattern is filed under something that a path must have for it to match: the directories
    it begins with, a name in it, the beginning or the end of a name. What has none of these is
    always tried.
    """

    def __init__(self, patterns: Sequence[str], *, wide: bool, ignore_case: bool = False) -> None:
        self._patterns = (
            [fold_case(pattern) for pattern in patterns] if ignore_case else list(patterns)
        )
        self._wide = wide
        self._ignore_case = ignore_case
        self._compiled: dict[int, CompiledPattern] = {}
        self._by_prefix: dict[str, list[int]] = {}
        self._by_part: dict[str, list[int]] = {}
        self._by_part_start, self._by_part_end = _AffixIndex(), _AffixIndex()
        self._unindexed: list[int] = []
        for at, pattern in enumerate(self._patterns):
            self._insert(at, pattern)

    def find(self, relative: str) -> list[int]:
        """The patterns that cover the path; as a directory too, if they are read widely."""
        path = fold_case(relative) if self._ignore_case else relative
        directory, _, name = path.rpartition("/")
        candidates = [
            *self.find_directory_candidates(directory),
            *self.find_name_candidates(directory, name),
        ]
        return [at for at in dict.fromkeys(candidates) if self.covers(at, path)]

    def covers(self, position: int, path: str) -> bool:
        pattern = self._compiled.get(position)
        if pattern is None:
            pattern = self._compiled[position] = compile_pattern(
                self._patterns[position], literal_fallback=self._wide, fold_case=self._ignore_case
            )
        # A deny of `secrets/` is about the directory itself, and about a file in its place.
        return pattern.covers(path) or (self._wide and pattern.covers(f"{path}/"))

    def find_directory_candidates(self, directory: str) -> Iterable[int]:
        """The patterns that may cover something in this directory, whatever its name."""
        yield from self._unindexed
        at = 0
        while directory and at >= 0:
            end = directory.find("/", at)
            name = directory[at:] if end < 0 else directory[at:end]
            yield from self._by_prefix.get(directory if end < 0 else directory[:end], ())
            yield from self._find_by_name(name)
            at = end + 1 if end >= 0 else end

    def find_name_candidates(self, directory: str, name: str) -> Iterable[int]:
        """The patterns that may cover this name in the directory, beside those for all names."""
        yield from self._by_prefix.get(f"{directory}/{name}" if directory else name, ())
        yield from self._find_by_name(name)

    def _find_by_name(self, name: str) -> Iterable[int]:
        yield from self._by_part.get(name, ())
        for length in self._by_part_start.lengths:
            yield from self._by_part_start.by_text.get(name[:length], ())
        for length in self._by_part_end.lengths:
            yield from self._by_part_end.by_text.get(name[-length:], ())

    def _insert(self, position: int, pattern: str) -> None:
        prefix = extract_literal_prefix(pattern)
        if prefix:
            self._by_prefix.setdefault(prefix, []).append(position)
            return
        parts = pattern.strip("/").split("/")
        spelled = [part for part in parts if is_literal(part)]
        if spelled:
            self._by_part.setdefault(spelled[-1], []).append(position)
            return
        for part in parts:
            head, star, rest = part.partition("*")
            tail = rest.rpartition("*")[2]
            if star and is_literal(head):
                self._by_part_start.add(head, position)
                return
            # In `*[a*b]` the last star is not one.
            if star and is_literal(tail) and "[" not in part:
                self._by_part_end.add(tail, position)
                return
        self._unindexed.append(position)
