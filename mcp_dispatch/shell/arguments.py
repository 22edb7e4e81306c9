"""Specs of read-only programs: which options they accept, and which files they read."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from mcp_dispatch.shell.ast import GlobCharacter, Literal, Word


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """What a read-only command reads. `paths` and `globs` are named in its arguments.

    `reads_cwd`: it reads its current directory without naming it. `reads_unnamed_files`: it reads
    files that its arguments do not name. `follows_links`: it follows links that it finds.
    `uses_repository`: it is a git command, whose effect depends on the repository's configuration.
    `unsafe_variables` of the environment could make it do more.
    """

    paths: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()
    reads_cwd: bool = False
    reads_unnamed_files: bool = False
    follows_links: bool = False
    uses_repository: bool = False
    unsafe_variables: tuple[str, ...] = ()


class Operands(Enum):
    NONE = "none"
    TEXTS = "texts"
    PATHS = "files or directories"
    PATTERN = "a pattern, then files or directories"


ArgumentAnalyzer: TypeAlias = Callable[[Sequence[str]], ReadSpec | None]
"""Analyzes the arguments of a program that needs a grammar of its own."""

_BARE = r"(?:[^'\"\\~]|\\[()!*?.\[\] ])*"
_PLAINLY_SPELLED = re.compile(rf"(?!=){_BARE}(?:'[^']*'|\"[^\"\\]*\")?{_BARE}", re.DOTALL)
_REVISION = re.compile(r"[^'\"\\=~][^'\"\\]*")
_NUMBER = re.compile(r"-[0-9]+")


def to_literal_text(word: Word, *, allow_revisions: bool = False) -> str | None:
    """Return the value of a word that is quoted in an unambiguous way, else None.

    Adjacent quotes and escaped quotes have misled other parsers. `allow_revisions`: the word may
    contain a tilde, as in `HEAD~1`.
    """
    if not word.fixed:
        return None
    plain = _PLAINLY_SPELLED.fullmatch(word.raw)
    if plain is None and not (allow_revisions and _REVISION.fullmatch(word.raw)):
        return None
    return word.value


def to_glob_pattern(word: Word) -> str | None:
    """Return the pattern of a word whose only expansions are `*` and `?`, else None."""
    expansions = [piece for piece in word.pieces if not isinstance(piece, Literal)]
    if not expansions or any(
        piece not in (GlobCharacter("*"), GlobCharacter("?")) for piece in expansions
    ):
        return None
    ambiguous = (
        "**" in word.raw or word.raw.startswith(("-", "=")) or re.search(r"['\"\\~]", word.raw)
    )
    return None if ambiguous else word.raw


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """The harmless options of a program, by name: `-x`, `--long`. All others are refused."""

    flags: frozenset[str]
    value_options: frozenset[str]
    path_options: frozenset[str]
    """Options whose value is a file."""

    @staticmethod
    def parse(spec: str) -> "OptionSpec":
        """Parse `al n: f@ --all --lines: --file@`: `:` marks a value, `@` a file."""
        flags: set[str] = set()
        valued: set[str] = set()
        paths: set[str] = set()
        for token in spec.split():
            name = token.rstrip(":@")
            names = [name] if name.startswith("--") else [f"-{letter}" for letter in name]
            flags.update(names if token == name else ())
            valued.update(names if token != name else ())
            paths.update(names if token.endswith("@") else ())
        return OptionSpec(frozenset(flags), frozenset(valued), frozenset(paths))


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """The arguments with which a program, or a subcommand, only reads.

    `numeric_flags`: it accepts `-20`. `accepts_globs`: no option does harm, so that file names may
    become arguments. `unnamed_file_flags` make it read files that are not named, and
    `link_following_flags` make it follow links. `refused_pattern` must not occur in any argument;
    `operand_pattern` must match every operand. The other fields are those of `ReadSpec`.
    """

    options: OptionSpec
    operands: Operands = Operands.PATHS
    max_operands: int | None = None
    min_operands: int = 0
    numeric_flags: bool = False
    accepts_globs: bool = False
    reads_cwd: bool = False
    reads_unnamed_files: bool = False
    unnamed_file_flags: frozenset[str] = frozenset()
    link_following_flags: frozenset[str] = frozenset()
    follows_links: bool = False
    refused_pattern: re.Pattern[str] | None = None
    operand_pattern: re.Pattern[str] | None = None
    uses_repository: bool = False
    unsafe_variables: tuple[str, ...] = ()

    def analyze(self, words: Sequence[Word]) -> ReadSpec | None:
        """Return what a call with these arguments reads, or None if it may do more than read."""
        return _ArgumentScanner(self).analyze(words)


class _ArgumentScanner:
    """Scans the arguments of one command."""

    def __init__(self, program: ProgramSpec) -> None:
        self._program = program
        self._paths: list[str] = []
        self._globs: list[str] = []
        self._operands: list[str] = []
        self._used_options: set[str] = set()

    def analyze(self, words: Sequence[Word]) -> ReadSpec | None:
        if not self._scan(words) or not self._accept_operands():
            return None
        program, used_options = self._program, self._used_options
        reads_unnamed = program.reads_unnamed_files or bool(
            used_options & program.unnamed_file_flags
        )
        follows_links = program.follows_links or bool(used_options & program.link_following_flags)
        named_files = (*self._paths, *self._globs)
        return ReadSpec(
            tuple(self._paths),
            tuple(self._globs),
            reads_cwd=program.reads_cwd or (reads_unnamed and not named_files),
            reads_unnamed_files=reads_unnamed or follows_links,
            follows_links=follows_links,
            uses_repository=program.uses_repository,
            unsafe_variables=program.unsafe_variables,
        )

    def _scan(self, words: Sequence[Word]) -> bool:
        rest = list(reversed(words))
        options_ended = False
        while rest:
            word = rest.pop()
            text = to_literal_text(word, allow_revisions=self._program.uses_repository)
            if text is None:
                if not self._add_glob(word):
                    return False
            elif self._is_refused(text):
                return False
            elif text == "--" and not options_ended:
                options_ended = True
            elif text.startswith("-") and text != "-":
                if options_ended or not self._accept_option(text, rest):
                    return False
            else:
                self._operands.append(text)
        return True

    def _is_refused(self, text: str) -> bool:
        return self._program.refused_pattern is not None and bool(
            self._program.refused_pattern.search(text)
        )

    def _add_glob(self, word: Word) -> bool:
        pattern = to_glob_pattern(word) if self._program.accepts_globs else None
        if pattern is None or self._needs_pattern() or self._program.max_operands is not None:
            return False
        self._globs.append(pattern)
        return True

    def _needs_pattern(self) -> bool:
        expects_pattern = (
            self._program.operands is Operands.PATTERN and not self._has_pattern_option()
        )
        return (expects_pattern and not self._operands) or self._program.operands is Operands.NONE

    def _has_pattern_option(self) -> bool:
        return bool(self._used_options & {"-e", "--regexp", "--files"})

    def _accept_option(self, text: str, rest: list[Word]) -> bool:
        if text.startswith("--"):
            return self._accept_long_option(text, rest)
        if self._program.numeric_flags and _NUMBER.fullmatch(text):
            return True
        for index in range(1, len(text)):
            name = f"-{text[index]}"
            self._used_options.add(name)
            if name in self._program.options.value_options:
                return self._accept_value(name, text[index + 1 :] or None, rest)
            if name not in self._program.options.flags:
                return False
        return True

    def _accept_long_option(self, text: str, rest: list[Word]) -> bool:
        name, equals, value = text.partition("=")
        self._used_options.add(name)
        if name in self._program.options.value_options:
            return self._accept_value(name, value if equals else None, rest)
        return name in self._program.options.flags

    def _accept_value(self, name: str, inline_value: str | None, rest: list[Word]) -> bool:
        value = inline_value
        if value is None:
            value = to_literal_text(rest.pop()) if rest else None
            # Another version of the program may take such a value for an option.
            if value is None or (value.startswith("-") and not _NUMBER.fullmatch(value)):
                return False
        if self._is_refused(value):
            return False
        if name in self._program.options.path_options:
            self._paths.append(value)
        return True

    def _accept_operands(self) -> bool:
        program, operands = self._program, self._operands
        count = len(operands) + len(self._globs)
        if count < program.min_operands or (
            program.max_operands is not None and count > program.max_operands
        ):
            return False
        if program.operand_pattern is not None and not all(
            map(program.operand_pattern.fullmatch, operands)
        ):
            return False
        match program.operands:
            case Operands.NONE:
                return not count
            case Operands.PATHS:
                self._paths += _exclude_stdin(operands)
            case Operands.PATTERN:
                self._paths += _exclude_stdin(
                    operands if self._has_pattern_option() else operands[1:]
                )
            case Operands.TEXTS:
                pass
        return True


def _exclude_stdin(operands: Sequence[str]) -> list[str]:
    return [operand for operand in operands if operand != "-"]


def accept_texts(
    spec: str = "", *, max_operands: int | None = None, min_operands: int = 0
) -> ProgramSpec:
    return ProgramSpec(
        OptionSpec.parse(spec), Operands.TEXTS, max_operands=max_operands, min_operands=min_operands
    )


def accept_nothing(spec: str = "") -> ProgramSpec:
    return ProgramSpec(OptionSpec.parse(spec), Operands.NONE)


def accept_files(spec: str = "", *, numeric_flags: bool = False) -> ProgramSpec:
    """Describe a filter that reads the files in its arguments and has no harmful option."""
    return ProgramSpec(OptionSpec.parse(spec), numeric_flags=numeric_flags, accepts_globs=True)


def accept_few_files(spec: str, max_operands: int) -> ProgramSpec:
    return ProgramSpec(OptionSpec.parse(spec), max_operands=max_operands)
