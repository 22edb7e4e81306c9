"""Every command line that a shell text may run, at any depth: what deny and ask rules look at."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from mcp_dispatch.policy.commands.pattern import SEPARATOR
from mcp_dispatch.policy.commands.wrappers import (
    DECLARING,
    EVALUATING,
    EVALUATORS,
    SHELLS,
    UNREADABLE,
    WRAPPERS,
    inner,
    program,
    without_git_options,
)
from mcp_dispatch.shell.analyze import Looks, analyse
from mcp_dispatch.shell.ast import (
    Assignment,
    Form,
    Literal,
    Plain,
    SimpleCommand,
    Unknown,
    Variable,
    Word,
)
from mcp_dispatch.shell.fallback_tokens import tokens
from mcp_dispatch.shell.plain_parser import RESERVED, read

DEEPEST = 8
"""How many shell texts inside shell texts are read."""

LONGEST = 128 * 1024
"""Characters over which a text is not read: no kernel takes a longer argument."""

_MOST_WORK = 2_000_000
_REMEMBERED = 32
_DELEGATES = frozenset({*SHELLS, *EVALUATORS, *WRAPPERS, *UNREADABLE})


@dataclass(frozen=True, slots=True)
class Reading:
    """`lines` begin with a program; `runs` are words of which any may be one.

    `plain` is the whole text, where both readers agree on it; `looks` says of each of its commands
    what it looks at. `commands` are the simple commands behind the lines, `texts` the plain texts
    they stand in, the outermost first. `unread`: some text inside is not understood. Where
    `complete` is False there is more than was read.
    """

    text: str
    plain: Plain | Unknown
    looks: Looks
    texts: tuple[Plain, ...]
    commands: tuple[tuple[Word, ...], ...]
    lines: tuple[str, ...]
    runs: tuple[tuple[str, ...], ...]
    unread: bool
    complete: bool


@lru_cache(maxsize=_REMEMBERED)
def reading(text: str) -> Reading:
    """Kept for a while: hooks, rules and suggestions all look at the same command."""
    analysis = analyse(text)
    whole = analysis.reading
    survey = _Survey()
    if isinstance(whole, Plain) and isinstance(read(text), Unknown):
        survey.compound(whole)
    if not (survey.texts and _names_what_it_runs(whole)):
        survey.text(text, 0)
    return Reading(
        text,
        whole,
        analysis.looks,
        tuple(survey.texts),
        tuple(survey.commands),
        tuple(dict.fromkeys(survey.lines)),
        tuple(dict.fromkeys(survey.runs)),
        survey.unread,
        survey.complete,
    )


def _names_what_it_runs(plain: Plain | Unknown) -> bool:
    """Whether every program is spelled out, so that the words need not be searched for one."""
    return (
        isinstance(plain, Plain)
        and plain.form is not Form.SUBSTITUTING
        and all(command.words[0].fixed for command in plain.commands if command.words)
    )


class _Survey:
    """Collects what one text may run."""

    def __init__(self) -> None:
        self.texts: list[Plain] = []
        self.commands: list[tuple[Word, ...]] = []
        self.lines: list[str] = []
        self.runs: list[tuple[str, ...]] = []
        self.complete = True
        self.unread = False
        self._seen: set[tuple[str, ...]] = set()
        self._read: set[str] = set()
        self._values: dict[str, str] = {}
        self._work = 0

    def compound(self, plain: Plain) -> None:
        """A text beyond the plain subset that is understood all the same."""
        self.texts.append(plain)
        self._commands(plain)
        for name, words in plain.loops:
            for word in words:
                self._values[name] = word.value
                self._commands(plain)

    def _commands(self, plain: Plain) -> None:
        for command in plain.commands:
            self._command(command, 0)

    def text(self, text: str, depth: int) -> None:
        if text in self._read:
            return
        if depth > DEEPEST or len(text) > LONGEST or self._work > _MOST_WORK:
            self.complete = False
            return
        self._read.add(text)
        self._work += len(text)
        plain = read(text)
        if isinstance(plain, Plain):
            self.texts.append(plain)
            for command in plain.commands:
                self._command(command, depth)
        else:
            self._run(tokens(text), depth)

    def _command(self, command: SimpleCommand, depth: int) -> None:
        self._words(command.words, depth)
        substituted = self._substituted(command.words)
        if substituted is not None:
            self._words(substituted, depth)
        for assignment in command.assignments:
            self._assign(assignment)

    def _words(self, words: tuple[Word, ...], depth: int) -> None:
        key = tuple(word.raw for word in words)
        if not words or key in self._seen:
            return
        if self._work > _MOST_WORK:
            self.complete = False
            return
        self._seen.add(key)
        self.commands.append(words)
        self._line(words)
        self._inside(words, depth)

    def _line(self, words: tuple[Word, ...]) -> None:
        """As it is, with expansions as they are written, and without the program's directory."""
        shapes = [word.shape for word in words]
        name = PurePosixPath(shapes[0]).name
        for line in (shapes, [word.value for word in words], [name, *shapes[1:]]):
            joined = SEPARATOR.join(line)
            self._work += len(joined)
            self.lines.append(joined)

    def _inside(self, words: tuple[Word, ...], depth: int) -> None:
        name = program(words)
        shorter = without_git_options(words)
        if shorter is not None:
            self._words(shorter, depth)
        if name in DECLARING:
            self._declare(words)
        if name in SHELLS:
            for word in _scripts(words):
                self._script(word, depth)
        if name in EVALUATORS:
            self.text(" ".join(word.value for word in words[1:]), depth + 1)
            for word in words[1:]:
                self._script(word, depth)
        if name in EVALUATING:
            for word in words[1:]:
                if "$(" in word.value or "`" in word.value:
                    self._run(tokens(word.value), depth)
        self._wrapped(words, depth)

    def _wrapped(self, words: tuple[Word, ...], depth: int) -> None:
        found = inner(words)
        if found is None:
            return
        for start in found.starts:
            self._words(words[start:], depth)
        if not found.certain:
            # Some take a whole command line as one argument (`ssh host "…"`, `env -S "…"`).
            self.text(" ".join(word.value for word in words[1:]), depth + 1)
            for word in words[1:]:
                self._script(word, depth)

    def _script(self, word: Word, depth: int) -> None:
        """An argument that may be shell text: itself, or what is glued to an option."""
        text = word.value
        candidates = [text] if not text.startswith("-") else [text[2:], text.partition("=")[2]]
        for candidate in candidates:
            if candidate.strip():
                self.text(candidate, depth + 1)

    def _run(self, runs: tuple[tuple[str, ...], ...], depth: int) -> None:
        self.unread = self.unread or depth > 0
        for run in runs:
            self.runs.append(run)
            based = tuple(PurePosixPath(token).name or token for token in run)
            if based != run:
                self.runs.append(based)
            self._work += sum(map(len, run)) * 2
            if any(token in _DELEGATES for token in based):
                for token in run:
                    if any(blank in token for blank in " \t\n;"):
                        self.text(token, depth + 1)

    def _declare(self, words: tuple[Word, ...]) -> None:
        for word in words[1:]:
            name, equals, value = word.value.partition("=")
            if equals and word.fixed:
                self._values[name] = value

    def _assign(self, assignment: Assignment) -> None:
        """Every value that a name may have had is not kept: the last one is, as bash would."""
        if assignment.value.fixed:
            self._values[assignment.name] = assignment.value.value

    def _substituted(self, words: tuple[Word, ...]) -> tuple[Word, ...] | None:
        """The words with the variables that the text itself has set; None where there are none."""
        if all(word.fixed for word in words):
            return None
        changed: list[Word] = []
        for word in words:
            changed.extend(self._filled(word))
        result = tuple(changed)
        return None if result == words else result

    def _filled(self, word: Word) -> list[Word]:
        pieces = [
            Literal(self._values[piece.name])
            if isinstance(piece, Variable) and piece.name in self._values
            else piece
            for piece in word.pieces
        ]
        filled = Word(word.raw, tuple(pieces))
        splits = any(isinstance(piece, Variable) and not piece.quoted for piece in word.pieces)
        if not (splits and filled.fixed):
            return [Word(filled.shape, filled.pieces)]
        return [Word(part, (Literal(part),)) for part in filled.value.split()]


def _scripts(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """What a shell may take for shell text: a script's own arguments are none."""
    takes_options = len(words) > 1 and (words[1].value[:1] in "-+" or not words[1].fixed)
    return words[1:] if takes_options else words[1:2]


def starts_of(run: tuple[str, ...]) -> tuple[str, ...]:
    """The run from its first word that can be a program's name."""
    at = 0
    while at < len(run) and (run[at] in RESERVED or run[at] in _DELEGATES or "=" in run[at]):
        at += 1
    return run[at:]
