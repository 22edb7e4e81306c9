"""What a shell command is made of: words, assignments, redirects, simple commands."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

EXPANSION = "\x1e"
"""Stands in a word's shape for text that only the running shell knows."""


@dataclass(frozen=True, slots=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`, `${name}`, or a tilde (`~` alone is named HOME). Unquoted, it may become any words."""

    name: str
    source: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class GlobCharacter:
    """An unquoted `*`, `?` or `[`: file names decide what it becomes."""

    source: str


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(…)`, backticks, or `<(…)`: what its commands print decides what it becomes."""

    source: str
    quoted: bool


Piece: TypeAlias = Literal | Variable | GlobCharacter | Substitution


@dataclass(frozen=True, slots=True)
class Word:
    """One word. `raw` is its source."""

    raw: str
    pieces: tuple[Piece, ...]

    @property
    def value(self) -> str:
        """The word without its quotes; expansions stay as they are written."""
        return "".join(
            piece.text if isinstance(piece, Literal) else piece.source for piece in self.pieces
        )

    @property
    def shape(self) -> str:
        """The word without its quotes; every expansion is an `EXPANSION`."""
        return "".join(
            piece.text if isinstance(piece, Literal) else EXPANSION for piece in self.pieces
        )

    @property
    def fixed(self) -> bool:
        """Whether the shell passes `value` on, letter for letter."""
        return all(isinstance(piece, Literal) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`. The pieces of `value` begin after the equals sign."""

    name: str
    value: Word


@dataclass(frozen=True, slots=True)
class Redirect:
    """`operator` is one of `>`, `>>`, `<`, `&>`, `&>>`; `>&`, `<&`, whose target is a digit or `-`;
    `<<`, whose target is a delimiter; `<<<`, whose target is text.
    """

    operator: str
    descriptor: str
    target: Word

    @property
    def writes(self) -> bool:
        return self.operator in {">", ">>", "&>", "&>>"}

    @property
    def reads(self) -> bool:
        return self.operator == "<"


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command with what belongs to it. `words` is empty for a bare assignment or redirect."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Form(Enum):
    """How the commands of a text stand to each other."""

    FLAT = "lists, pipelines and groups"
    COMPOUND = "subshells or control flow"
    SUBSTITUTING = "what one command prints becomes part of another"


@dataclass(frozen=True, slots=True)
class PlainScript:
    """The text is understood; it runs these commands, at whatever depth, and no others.

    `loops` are the variables that go through a list of words.
    """

    commands: tuple[SimpleCommand, ...]
    form: Form = Form.FLAT
    loops: tuple[tuple[str, tuple[Word, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class UnparsedScript:
    """The text is not understood, for this reason. It may run anything."""

    reason: str
