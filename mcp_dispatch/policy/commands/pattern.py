"""Patterns of `Bash(…)` rules: an exact command, a prefix, or text with `*`."""

import re
from dataclasses import dataclass
from enum import Enum

from mcp_dispatch.shell.ast import EXPANSION, GlobCharacter, PlainScript, SimpleCommand, Word
from mcp_dispatch.shell.plain_parser import parse_plain


@dataclass(frozen=True, slots=True)
class Wildcard:
    """The literal pieces of a pattern, with a `*` between neighbours."""

    pieces: tuple[str, ...]

    @staticmethod
    def parse(pattern: str) -> "Wildcard":
        return Wildcard(tuple(pattern.split("*")))

    @property
    def literal(self) -> bool:
        """Whether the pattern contains no `*`."""
        return len(self.pieces) == 1

    def __str__(self) -> str:
        return "*".join(self.pieces)

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches. Only a `*` matches an `EXPANSION`."""
        pieces = self.pieces
        first, last = pieces[0], pieces[-1]
        if len(pieces) == 1:
            return text == first
        start, end = len(first), len(text) - len(last)
        if start > end or not (text.startswith(first) and text.endswith(last)):
            return False
        for piece in pieces[1:-1]:
            index = text.find(piece, start, end)
            if index < 0:
                return False
            start = index + len(piece)
        return True

    def may_match(self, text: str) -> bool:
        """Return whether the text matches for some value of its `EXPANSION`s."""
        chunks = tuple(text.split(EXPANSION))
        if len(chunks) == 1:
            return self.matches(text)
        if self.literal:
            return Wildcard(chunks).matches(self.pieces[0])
        # Both have a gap, and the middle of one can be in the gap of the other.
        same_start = _is_prefix_either_way(chunks[0], self.pieces[0])
        return same_start and _is_prefix_either_way(chunks[-1][::-1], self.pieces[-1][::-1])


def _is_prefix_either_way(one: str, other: str) -> bool:
    """Return whether the longer text begins with the shorter one."""
    return one.startswith(other) or other.startswith(one)


SEPARATOR = "\x1f"
"""Separates the words of a command line, because a word may contain blanks."""

ANYTHING = "\x1d"
"""Replaces a `*` in the words of a pattern."""

_AROUND_OPERATORS = re.compile(r"\s*([|&;<>()])\s*")


class RuleMatch(Enum):
    NO = 0
    MAYBE = 1
    """It depends on how the running shell expands a variable or a glob."""
    YES = 2


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A pattern for command lines, whose words are joined by `SEPARATOR`.

    `anchored` match from the first word on, `anywhere` from any word of a line that begins with a
    separator; `text_pattern` matches a whole script. `words` are the words of the pattern and
    `literal_words` those before the first `*`; the first `assignment_count` of them are
    assignments. `allows_more_words`: more words may follow.
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
        """The number of words before the first `*`."""
        return len(self.literal_words)

    def matches(self, line: str) -> bool:
        """Return whether the line matches, whatever its expansions become."""
        for wildcard in self.anchored:  # noqa: SIM110  (`any` takes twice as long)
            if wildcard.matches(line):
                return True
        return False

    def match_line(self, line: str) -> RuleMatch:
        if self.matches(line):
            return RuleMatch.YES
        uncertain = EXPANSION in line and any(
            wildcard.may_match(line) for wildcard in self.anchored
        )
        return RuleMatch.MAYBE if uncertain else RuleMatch.NO

    def matches_anywhere(self, line: str) -> bool:
        """Return whether the pattern matches from any word of the line on."""
        return any(wildcard.matches(SEPARATOR + line) for wildcard in self.anywhere)


def parse_command_pattern(specifier: str) -> CommandPattern | None:
    """Parse a specifier; return None if it contains no command."""
    body, tail = _split_tail(specifier.strip())
    if not body:
        return None
    text = Wildcard.parse(collapse_blanks(body))
    exact = None if tail or "*" in body else specifier.strip()
    script = parse_plain(body)
    if not (isinstance(script, PlainScript) and len(script.commands) == 1):
        return _build_text_pattern(text, exact)
    command = script.commands[0]
    if command.redirects or not command.words:
        return _build_text_pattern(text, exact)
    words = [*(_format_assignments(command)), *(_to_pattern_text(word) for word in command.words)]
    anchored = _build_wildcards(SEPARATOR.join(words), tail)
    anywhere = _build_wildcards(ANYTHING + SEPARATOR + SEPARATOR.join(words), tail)
    literal_count = next(
        (index for index, word in enumerate(words) if ANYTHING in word), len(words)
    )
    return CommandPattern(
        anchored=anchored,
        anywhere=anywhere,
        text_pattern=text,
        exact_text=exact,
        words=tuple(words),
        literal_words=tuple(words[:literal_count]),
        assignment_count=len(command.assignments),
        allows_more_words=tail,
    )


def _build_text_pattern(text: Wildcard, exact: str | None) -> CommandPattern:
    """Build a pattern that is not one simple command and only matches whole scripts."""
    return CommandPattern(anchored=(), anywhere=(), text_pattern=text, exact_text=exact)


def _split_tail(specifier: str) -> tuple[str, bool]:
    """Return the pattern without `:*` or ` *` at its end, and whether it had one."""
    for ending in (":*", " *"):
        if specifier.endswith(ending):
            return specifier[: -len(ending)].strip(), True
    return specifier, False


def collapse_blanks(text: str) -> str:
    """Return the text with one blank between words and none around operators."""
    return _AROUND_OPERATORS.sub(r"\1", " ".join(text.split()))


def _format_assignments(command: SimpleCommand) -> list[str]:
    return [
        f"{assignment.name}={_to_pattern_text(assignment.value)}"
        for assignment in command.assignments
    ]


def _to_pattern_text(word: Word) -> str:
    return "".join(
        ANYTHING if piece == GlobCharacter("*") else Word("", (piece,)).value
        for piece in word.pieces
    )


def _build_wildcards(body: str, allow_more_words: bool) -> tuple[Wildcard, ...]:
    exact = Wildcard(tuple(body.split(ANYTHING)))
    if not allow_more_words:
        return (exact,)
    return (exact, Wildcard((*f"{body}{SEPARATOR}".split(ANYTHING), "")))
