"""What a read-only command looks at, and how its options are told from its operands."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from mcp_dispatch.shell.ast import Glob, Literal, Word


@dataclass(frozen=True, slots=True)
class Look:
    """`paths` and `globs` are what a command names. `sweeps`: it reads files it does not name.

    `here`: without being told, it looks at the directory it runs in. `follows`: it goes through
    links that it meets. `repository`: git runs it, so that a repository's configuration counts.
    `variables` of the environment would change what it does.
    """

    paths: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    here: bool = False
    sweeps: bool = False
    follows: bool = False
    repository: bool = False
    variables: tuple[str, ...] = ()


class Operands(Enum):
    NONE = "none"
    TEXTS = "texts"
    PATHS = "files or directories"
    PATTERN = "a pattern, then files or directories"


Reader: TypeAlias = Callable[[Sequence[str]], Look | None]
"""Looks at the arguments of a program that needs a grammar of its own."""

_BARE = r"(?:[^'\"\\~]|\\[()!*?.\[\] ])*"
_PLAINLY_SPELLED = re.compile(rf"(?!=){_BARE}(?:'[^']*'|\"[^\"\\]*\")?{_BARE}", re.DOTALL)
_REVISION = re.compile(r"[^'\"\\=~][^'\"\\]*")
_NUMBER = re.compile(r"-[0-9]+")


def text_of(word: Word, *, revisions: bool = False) -> str | None:
    """What the word says, where that leaves no doubt to any reader; else None.

    Quotes glued to quotes and escaped quotes have fooled others. `revisions` may hold a tilde.
    """
    if not word.fixed:
        return None
    plain = _PLAINLY_SPELLED.fullmatch(word.raw)
    if plain is None and not (revisions and _REVISION.fullmatch(word.raw)):
        return None
    return word.value


def glob_of(word: Word) -> str | None:
    """The pattern of a word with `*` and `?` and nothing else to expand; else None."""
    wild = [piece for piece in word.pieces if not isinstance(piece, Literal)]
    if not wild or any(piece not in (Glob("*"), Glob("?")) for piece in wild):
        return None
    odd = "**" in word.raw or word.raw.startswith(("-", "=")) or re.search(r"['\"\\~]", word.raw)
    return None if odd else word.raw


@dataclass(frozen=True, slots=True)
class Options:
    """The options that change nothing, by name: `-x`, `--long`. Whatever is not here is refused."""

    flags: frozenset[str]
    valued: frozenset[str]
    of_paths: frozenset[str]
    """Those whose value is a file."""

    @staticmethod
    def of(spec: str) -> "Options":
        """`al n: f@ --all --lines: --file@`: letters, then `:` for a value, `@` for a file."""
        flags: set[str] = set()
        valued: set[str] = set()
        paths: set[str] = set()
        for token in spec.split():
            name = token.rstrip(":@")
            names = [name] if name.startswith("--") else [f"-{letter}" for letter in name]
            flags.update(names if token == name else ())
            valued.update(names if token != name else ())
            paths.update(names if token.endswith("@") else ())
        return Options(frozenset(flags), frozenset(valued), frozenset(paths))


@dataclass(frozen=True, slots=True)
class Program:
    """How a program, or one of its subcommands, is used to look and not to touch.

    `globs`: no option it has does harm, so that file names may stand for its arguments. `sweeping`
    and `following` are the options that make it so. `refused` must not occur in any argument.
    """

    options: Options
    operands: Operands = Operands.PATHS
    most: int | None = None
    least: int = 0
    numeric: bool = False
    globs: bool = False
    here: bool = False
    sweeps: bool = False
    sweeping: frozenset[str] = frozenset()
    following: frozenset[str] = frozenset()
    follows: bool = False
    refused: re.Pattern[str] | None = None
    operand: re.Pattern[str] | None = None
    repository: bool = False
    variables: tuple[str, ...] = ()

    def look(self, words: Sequence[Word]) -> Look | None:
        """At the arguments after its name; None where it is not certain that it only looks."""
        return _Survey(self).look(words)


class _Survey:
    """One pass over the arguments of one command."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._paths: list[str] = []
        self._globs: list[str] = []
        self._operands: list[str] = []
        self._used: set[str] = set()

    def look(self, words: Sequence[Word]) -> Look | None:
        if not self._read(words) or not self._operands_fit():
            return None
        program, used = self._program, self._used
        sweeps = program.sweeps or bool(used & program.sweeping)
        follows = program.follows or bool(used & program.following)
        named = (*self._paths, *self._globs)
        return Look(
            tuple(self._paths),
            tuple(self._globs),
            here=program.here or (sweeps and not named),
            sweeps=sweeps or follows,
            follows=follows,
            repository=program.repository,
            variables=program.variables,
        )

    def _read(self, words: Sequence[Word]) -> bool:
        rest = list(reversed(words))
        options_ended = False
        while rest:
            word = rest.pop()
            text = text_of(word, revisions=self._program.repository)
            if text is None:
                if not self._glob(word):
                    return False
            elif self._refused(text):
                return False
            elif text == "--" and not options_ended:
                options_ended = True
            elif text.startswith("-") and text != "-":
                if options_ended or not self._option(text, rest):
                    return False
            else:
                self._operands.append(text)
        return True

    def _refused(self, text: str) -> bool:
        return self._program.refused is not None and bool(self._program.refused.search(text))

    def _glob(self, word: Word) -> bool:
        pattern = glob_of(word) if self._program.globs else None
        if pattern is None or self._first_is_pattern() or self._program.most is not None:
            return False
        self._globs.append(pattern)
        return True

    def _first_is_pattern(self) -> bool:
        wanted = self._program.operands is Operands.PATTERN and not self._gives_pattern()
        return (wanted and not self._operands) or self._program.operands is Operands.NONE

    def _gives_pattern(self) -> bool:
        return bool(self._used & {"-e", "--regexp", "--files"})

    def _option(self, text: str, rest: list[Word]) -> bool:
        if text.startswith("--"):
            return self._long(text, rest)
        if self._program.numeric and _NUMBER.fullmatch(text):
            return True
        for at in range(1, len(text)):
            name = f"-{text[at]}"
            self._used.add(name)
            if name in self._program.options.valued:
                return self._value(name, text[at + 1 :] or None, rest)
            if name not in self._program.options.flags:
                return False
        return True

    def _long(self, text: str, rest: list[Word]) -> bool:
        name, equals, value = text.partition("=")
        self._used.add(name)
        if name in self._program.options.valued:
            return self._value(name, value if equals else None, rest)
        return name in self._program.options.flags

    def _value(self, name: str, glued: str | None, rest: list[Word]) -> bool:
        value = glued
        if value is None:
            value = text_of(rest.pop()) if rest else None
            # What looks like an option may be one, for another version of the program.
            if value is None or (value.startswith("-") and not _NUMBER.fullmatch(value)):
                return False
        if self._refused(value):
            return False
        if name in self._program.options.of_paths:
            self._paths.append(value)
        return True

    def _operands_fit(self) -> bool:
        program, operands = self._program, self._operands
        count = len(operands) + len(self._globs)
        if count < program.least or (program.most is not None and count > program.most):
            return False
        if program.operand is not None and not all(map(program.operand.fullmatch, operands)):
            return False
        match program.operands:
            case Operands.NONE:
                return not count
            case Operands.PATHS:
                self._paths += _files(operands)
            case Operands.PATTERN:
                self._paths += _files(operands if self._gives_pattern() else operands[1:])
            case Operands.TEXTS:
                pass
        return True


def _files(operands: Sequence[str]) -> list[str]:
    return [operand for operand in operands if operand != "-"]
