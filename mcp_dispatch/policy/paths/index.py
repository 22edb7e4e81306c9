"""An index of gitignore patterns: a path is compared only with patterns that share a part."""

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
    """Patterns by the text with which one part of a path must begin or end."""

    by_text: dict[str, list[int]] = field(default_factory=lambda: {})
    lengths: set[int] = field(default_factory=lambda: set[int]())

    def add(self, text: str, position: int) -> None:
        self.by_text.setdefault(text, []).append(position)
        self.lengths.add(len(text))


class PathIndex:
    """Patterns of one anchor, identified by their position.

    Every pattern is indexed by something that a matching path must contain: leading directories, a
    part, or the start or end of a part. A pattern without any of these is always tried. `wide`:
    the patterns belong to deny and ask rules.
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
        for position, pattern in enumerate(self._patterns):
            self._insert(position, pattern)

    def find(self, relative: str) -> list[int]:
        """Return the patterns that cover the path; if `wide`, also as a directory."""
        path = fold_case(relative) if self._ignore_case else relative
        directory, _, name = path.rpartition("/")
        candidates = [
            *self.find_directory_candidates(directory),
            *self.find_name_candidates(directory, name),
        ]
        return [position for position in dict.fromkeys(candidates) if self.covers(position, path)]

    def covers(self, position: int, path: str) -> bool:
        pattern = self._compiled.get(position)
        if pattern is None:
            pattern = self._compiled[position] = compile_pattern(
                self._patterns[position], literal_fallback=self._wide, fold_case=self._ignore_case
            )
        # A deny of `secrets/` covers the directory itself, and a file with its name.
        return pattern.covers(path) or (self._wide and pattern.covers(f"{path}/"))

    def find_directory_candidates(self, directory: str) -> Iterable[int]:
        """Yield the patterns that may cover any file in this directory."""
        yield from self._unindexed
        start = 0
        while directory and start >= 0:
            end = directory.find("/", start)
            name = directory[start:] if end < 0 else directory[start:end]
            yield from self._by_prefix.get(directory if end < 0 else directory[:end], ())
            yield from self._find_by_name(name)
            start = end + 1 if end >= 0 else end

    def find_name_candidates(self, directory: str, name: str) -> Iterable[int]:
        """Yield the patterns that may cover this name in the directory."""
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
        literal_parts = [part for part in parts if is_literal(part)]
        if literal_parts:
            self._by_part.setdefault(literal_parts[-1], []).append(position)
            return
        for part in parts:
            head, star, rest = part.partition("*")
            tail = rest.rpartition("*")[2]
            if star and is_literal(head):
                self._by_part_start.add(head, position)
                return
            # In `*[a*b]` the last star is not a wildcard.
            if star and is_literal(tail) and "[" not in part:
                self._by_part_end.add(tail, position)
                return
        self._unindexed.append(position)
