"""Syntax tree of shell commands: words, assignments, redirects, simple commands."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

EXPANSION = "\x1e"
"""Replaces text in the shape of a word that only the running shell can expand."""


@dataclass(frozen=True, slots=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`, `${name}` or a tilde (`~` is HOME). Unquoted, it may expand to several words."""

    name: str
    source: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class GlobCharacter:
    """An unquoted `*`, `?` or `[`, which expands to file names."""

    source: str


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(…)`, backticks or `<(…)`, which expands to the output of its commands."""

    source: str
    quoted: bool


Piece: TypeAlias = Literal | Variable | GlobCharacter | Substitution


@dataclass(frozen=True, slots=True)
class Word:
    """One word. `raw` is its source text."""

    raw: str
    pieces: tuple[Piece, ...]

    @property
    def value(self) -> str:
        """The word without quotes; expansions stay as they are written."""
        return "".join(
            piece.text if isinstance(piece, Literal) else piece.source for piece in self.pieces
        )

    @property
    def shape(self) -> str:
        """The word without quotes; every expansion is an `EXPANSION`."""
        return "".join(
            piece.text if isinstance(piece, Literal) else EXPANSION for piece in self.pieces
        )

    @property
    def fixed(self) -> bool:
        """Whether the shell passes exactly `value` to the program."""
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
    """One command. `words` is empty for an assignment or redirect without a program."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Form(Enum):
    """How the commands of a script are combined."""

    FLAT = "lists, pipelines and groups"
    COMPOUND = "subshells or control flow"
    SUBSTITUTING = "what one command prints becomes part of another"


@dataclass(frozen=True, slots=True)
class PlainScript:
    """A script that is understood: it runs these commands, at any depth, and no others.

    `loops` are the variables of `for` loops, with the words that they iterate over.
    """

    commands: tuple[SimpleCommand, ...]
    form: Form = Form.FLAT
    loops: tuple[tuple[str, tuple[Word, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class UnparsedScript:
    """A script that is not understood, for this reason. It may run anything."""

    reason: str
