"""Many gitignore patterns at once: a path is tried only on those that name a part of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mcp_dispatch.fs.resolve import folded
from mcp_dispatch.policy.paths.pattern import Compiled, compiled, is_spelled, prefix_of


@dataclass(slots=True)
class _Endings:
    """Patterns by the letters that one part of a path must begin or end with."""

    by_text: dict[str, list[int]] = field(default_factory=lambda: {})
    lengths: set[int] = field(default_factory=lambda: set[int]())

    def add(self, text: str, at: int) -> None:
        self.by_text.setdefault(text, []).append(at)
        self.lengths.add(len(text))


class PathIndex:
    """Patterns of one anchor, known by their position.

    Every pattern is filed under something that a path must have for it to match: the directories
    it begins with, a name in it, the beginning or the end of a name. What has none of these is
    always tried.
    """

    def __init__(self, patterns: Sequence[str], *, literally: bool, folding: bool = False) -> None:
        self._patterns = [folded(pattern) for pattern in patterns] if folding else list(patterns)
        self._literally = literally
        self._folding = folding
        self._compiled: dict[int, Compiled] = {}
        self._under: dict[str, list[int]] = {}
        self._named: dict[str, list[int]] = {}
        self._heads, self._tails = _Endings(), _Endings()
        self._always: list[int] = []
        for at, pattern in enumerate(self._patterns):
            self._file(at, pattern)

    def find(self, relative: str) -> list[int]:
        """The patterns that cover the path; as a directory too, if they are read widely."""
        path = folded(relative) if self._folding else relative
        directory, _, name = path.rpartition("/")
        candidates = [*self.for_directory(directory), *self.for_name(directory, name)]
        return [at for at in dict.fromkeys(candidates) if self.covers(at, path)]

    def covers(self, at: int, path: str) -> bool:
        pattern = self._compiled.get(at)
        if pattern is None:
            pattern = self._compiled[at] = compiled(
                self._patterns[at], literally=self._literally, folding=self._folding
            )
        # A deny of `secrets/` is about the directory itself, and about a file in its place.
        return pattern.covers(path) or (self._literally and pattern.covers(f"{path}/"))

    def for_directory(self, directory: str) -> Iterable[int]:
        """The patterns that may cover something in this directory, whatever its name."""
        yield from self._always
        at = 0
        while directory and at >= 0:
            end = directory.find("/", at)
            name = directory[at:] if end < 0 else directory[at:end]
            yield from self._under.get(directory if end < 0 else directory[:end], ())
            yield from self._by_name(name)
            at = end + 1 if end >= 0 else end

    def for_name(self, directory: str, name: str) -> Iterable[int]:
        """The patterns that may cover this name in the directory, beside those for all names."""
        yield from self._under.get(f"{directory}/{name}" if directory else name, ())
        yield from self._by_name(name)

    def _by_name(self, name: str) -> Iterable[int]:
        yield from self._named.get(name, ())
        for length in self._heads.lengths:
            yield from self._heads.by_text.get(name[:length], ())
        for length in self._tails.lengths:
            yield from self._tails.by_text.get(name[-length:], ())

    def _file(self, at: int, pattern: str) -> None:
        prefix = prefix_of(pattern)
        if prefix:
            self._under.setdefault(prefix, []).append(at)
            return
        parts = pattern.strip("/").split("/")
        spelled = [part for part in parts if is_spelled(part)]
        if spelled:
            self._named.setdefault(spelled[-1], []).append(at)
            return
        for part in parts:
            head, star, rest = part.partition("*")
            tail = rest.rpartition("*")[2]
            if star and is_spelled(head):
                self._heads.add(head, at)
                return
            # In `*[a*b]` the last star is not one.
            if star and is_spelled(tail) and "[" not in part:
                self._tails.add(tail, at)
                return
        self._always.append(at)
