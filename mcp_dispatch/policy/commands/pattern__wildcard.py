"""Matching with `*` in time that grows with the length of the text, whatever the pattern."""

from dataclasses import dataclass

from mcp_dispatch.shell.ast import EXPANSION


@dataclass(frozen=True, slots=True)
class Wildcard:
    """The literal pieces of a pattern; between each two of them stands a `*`."""

    pieces: tuple[str, ...]

    @staticmethod
    def of(pattern: str) -> "Wildcard":
        return Wildcard(tuple(pattern.split("*")))

    @property
    def literal(self) -> bool:
        """Whether there is no `*` in it."""
        return len(self.pieces) == 1

    def __str__(self) -> str:
        return "*".join(self.pieces)

    def matches(self, text: str) -> bool:
        """Whether the whole of `text` fits. An `EXPANSION` in it fits nothing but a `*`."""
        pieces = self.pieces
        first, last = pieces[0], pieces[-1]
        if len(pieces) == 1:
            return text == first
        at, end = len(first), len(text) - len(last)
        if at > end or not (text.startswith(first) and text.endswith(last)):
            return False
        for piece in pieces[1:-1]:
            found = text.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True

    def could_match(self, text: str) -> bool:
        """Whether `text` fits for some meaning of its `EXPANSION`s, each of which may be any text."""
        chunks = tuple(text.split(EXPANSION))
        if len(chunks) == 1:
            return self.matches(text)
        if self.literal:
            return Wildcard(chunks).matches(self.pieces[0])
        # Both have a gap: whatever stands in the middle of one fits into the gap of the other.
        starts_alike = _begins(chunks[0], self.pieces[0])
        return starts_alike and _begins(chunks[-1][::-1], self.pieces[-1][::-1])


def _begins(one: str, other: str) -> bool:
    """Whether the longer begins with the shorter."""
    return one.startswith(other) or other.startswith(one)
