"""What stands in `Bash(…)`: an exact command, a prefix, or text with `*`."""

import re
from dataclasses import dataclass
from enum import Enum

from mcp_dispatch.shell.ast import EXPANSION, GlobCharacter, PlainScript, SimpleCommand, Word
from mcp_dispatch.shell.plain_parser import parse_plain


@dataclass(frozen=True, slots=True)
class Wildcard:
    """The literal pieces of a pattern; between each two of them stands a `*`."""

    pieces: tuple[str, ...]

    @staticmethod
    def parse(pattern: str) -> "Wildcard":
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

    def may_match(self, text: str) -> bool:
        """Whether `text` fits for some meaning of its `EXPANSION`s, each of which may be any text."""
        chunks = tuple(text.split(EXPANSION))
        if len(chunks) == 1:
            return self.matches(text)
        if self.literal:
            return Wildcard(chunks).matches(self.pieces[0])
        # Both have a gap: whatever stands in the middle of one fits into the gap of the other.
        starts_alike = _is_prefix_either_way(chunks[0], self.pieces[0])
        return starts_alike and _is_prefix_either_way(chunks[-1][::-1], self.pieces[-1][::-1])


def _is_prefix_either_way(one: str, other: str) -> bool:
    """Whether the longer begins with the shorter."""
    return one.startswith(other) or other.startswith(one)


SEPARATOR = "\x1f"
"""Stands between two words of a command line, so that a blank inside a word is not one."""

ANYTHING = "\x1d"
"""Stands in the words of a pattern for a `*`."""

_AROUND_OPERATORS = re.compile(r"\s*([|&;<>()])\s*")


class RuleMatch(Enum):
    NO = 0
    MAYBE = 1
    """It depends on what the running shell makes of a variable or a glob."""
    YES = 2


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A pattern over command lines: words joined by `SEPARATOR`.

    `anchored` match from the first word on, `anywhere` from any word of a line that begins with
    a separator; `text` matches a whole shell text. `words` are its own; those before the first `*`
    are `spelled`, and of these `assigned` are assignments. `open`: more words may follow.
    """

    anchored: tuple[Wildcard, ...]
    anywhere: tuple[Wildcard, ...]
    text_pattern: Wildcard
    exact_text: str | None
    words: tuple[str, ...] = ()
    literal_words: tuple[str, ...] = ()
    assignment_count: int = 0
    allows_more_words: bool = False

    @property
    def literal_word_count(self) -> int:
        """How many words it names in full before anything is left open."""
        return len(self.literal_words)

    def matches(self, line: str) -> bool:
        """Whether the line surely matches."""
        for wildcard in self.anchored:  # noqa: SIM110  (`any` takes twice as long)
            if wildcard.matches(line):
                return True
        return False

    def match_line(self, line: str) -> RuleMatch:
        if self.matches(line):
            return RuleMatch.YES
        unsure = EXPANSION in line and any(one.may_match(line) for one in self.anchored)
        return RuleMatch.MAYBE if unsure else RuleMatch.NO

    def matches_anywhere(self, line: str) -> bool:
        """Whether it matches from any word of the line on."""
        return any(wildcard.matches(SEPARATOR + line) for wildcard in self.anywhere)


def parse_command_pattern(specifier: str) -> CommandPattern | None:
    """None where nothing is left to match."""
    body, tail = _split_tail(specifier.strip())
    if not body:
        return None
    text = Wildcard.parse(collapse_blanks(body))
    exact = None if tail or "*" in body else specifier.strip()
    reading = parse_plain(body)
    if not (isinstance(reading, PlainScript) and len(reading.commands) == 1):
        return _build_text_pattern(text, exact)
    command = reading.commands[0]
    if command.redirects or not command.words:
        return _build_text_pattern(text, exact)
    words = [*(_format_assignments(command)), *(_to_pattern_text(word) for word in command.words)]
    anchored = _build_wildcards(SEPARATOR.join(words), tail)
    anywhere = _build_wildcards(ANYTHING + SEPARATOR + SEPARATOR.join(words), tail)
    leading = next((at for at, word in enumerate(words) if ANYTHING in word), len(words))
    return CommandPattern(
        anchored,
        anywhere,
        text,
        exact,
        tuple(words),
        tuple(words[:leading]),
        len(command.assignments),
        allows_more_words=tail,
    )


def _build_text_pattern(text: Wildcard, exact: str | None) -> CommandPattern:
    """A pattern that is more than one simple command."""
    return CommandPattern((), (), text, exact)


def _split_tail(specifier: str) -> tuple[str, bool]:
    """The pattern without its tail, and whether more words may follow."""
    for ending in (":*", " *"):
        if specifier.endswith(ending):
            return specifier[: -len(ending)].strip(), True
    return specifier, False


def collapse_blanks(text: str) -> str:
    """The text with one blank between words, and none around operators."""
    return _AROUND_OPERATORS.sub(r"\1", " ".join(text.split()))


def _format_assignments(command: SimpleCommand) -> list[str]:
    return [f"{one.name}={_to_pattern_text(one.value)}" for one in command.assignments]


def _to_pattern_text(word: Word) -> str:
    return "".join(
        ANYTHING if piece == GlobCharacter("*") else Word("", (piece,)).value
        for piece in word.pieces
    )


def _build_wildcards(body: str, allow_more_words: bool) -> tuple[Wildcard, ...]:
    exactly = Wildcard(tuple(body.split(ANYTHING)))
    if not allow_more_words:
        return (exactly,)
    return (exactly, Wildcard((*f"{body}{SEPARATOR}".split(ANYTHING), "")))
