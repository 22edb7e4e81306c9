"""Every command line that a shell text may run, at any depth: what deny and ask rules look at."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from mcp_dispatch.policy.commands.pattern import SEPARATOR
from mcp_dispatch.policy.commands.wrappers import (
    DECLARATION_BUILTINS,
    OPAQUE_WRAPPERS,
    SHELL_TEXT_BUILTINS,
    SHELLS,
    SUBSTITUTING_BUILTINS,
    WRAPPERS,
    find_wrapped_command,
    get_program_name,
    strip_git_options,
)
from mcp_dispatch.shell.analyze import ReadSpecs, analyze_script
from mcp_dispatch.shell.ast import (
    Assignment,
    Form,
    Literal,
    PlainScript,
    SimpleCommand,
    UnparsedScript,
    Variable,
    Word,
)
from mcp_dispatch.shell.fallback_tokens import tokenize_unparsed
from mcp_dispatch.shell.plain_parser import parse_plain
from mcp_dispatch.shell.syntax import RESERVED

MAX_DEPTH = 8
"""How many shell texts inside shell texts are read."""

MAX_TEXT_CHARS = 128 * 1024
"""Characters over which a text is not read: no kernel takes a longer argument."""

_MAX_WORK = 2_000_000
_CACHE_SIZE = 32
_COMMAND_RUNNERS = frozenset({*SHELLS, *SHELL_TEXT_BUILTINS, *WRAPPERS, *OPAQUE_WRAPPERS})


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """`lines` begin with a program; `runs` are words of which any may be one.

    `plain` is the whole text, where both readers agree on it; `looks` says of each of its commands
    what it looks at. `commands` are the simple commands behind the lines, `texts` the plain texts
    they stand in, the outermost first. `unread`: some text inside is not understood. Where
    `complete` is False there is more than was read.
    """

    text: str
    script: PlainScript | UnparsedScript
    read_specs: ReadSpecs
    plain_scripts: tuple[PlainScript, ...]
    commands: tuple[tuple[Word, ...], ...]
    lines: tuple[str, ...]
    token_runs: tuple[tuple[str, ...], ...]
    partly_unparsed: bool
    complete: bool


@lru_cache(maxsize=_CACHE_SIZE)
def parse_command(text: str) -> ParsedCommand:
    """Kept for a while: hooks, rules and suggestions all look at the same command."""
    analysis = analyze_script(text)
    whole = analysis.script
    survey = _CommandCollector()
    if isinstance(whole, PlainScript) and isinstance(parse_plain(text), UnparsedScript):
        survey.add_compound(whole)
    if not (survey.plain_scripts and _has_only_literal_programs(whole)):
        survey.add_text(text, 0)
    return ParsedCommand(
        text,
        whole,
        analysis.read_specs,
        tuple(survey.plain_scripts),
        tuple(survey.commands),
        tuple(dict.fromkeys(survey.lines)),
        tuple(dict.fromkeys(survey.token_runs)),
        survey.partly_unparsed,
        survey.complete,
    )


def _has_only_literal_programs(script: PlainScript | UnparsedScript) -> bool:
    """Whether every program is spelled out, so that the words need not be searched for one."""
    return (
        isinstance(script, PlainScript)
        and script.form is not Form.SUBSTITUTING
        and all(command.words[0].fixed for command in script.commands if command.words)
    )


class _CommandCollector:
    """Collects what one text may run."""

    def __init__(self) -> None:
        self.plain_scripts: list[PlainScript] = []
        self.commands: list[tuple[Word, ...]] = []
        self.lines: list[str] = []
        self.token_runs: list[tuple[str, ...]] = []
        self.complete = True
        self.partly_unparsed = False
        self._seen_words: set[tuple[str, ...]] = set()
        self._seen_texts: set[str] = set()
        self._variables: dict[str, str] = {}
        self._work = 0

    def add_compound(self, script: PlainScript) -> None:
        """A text beyond the plain subset that is understood all the same."""
        self.plain_scripts.append(script)
        self._add_commands(script)
        for name, words in script.loops:
            for word in words:
                self._variables[name] = word.value
                self._add_commands(script)

    def _add_commands(self, script: PlainScript) -> None:
        for command in script.commands:
            self._add_command(command, 0)

    def add_text(self, text: str, depth: int) -> None:
        if text in self._seen_texts:
            return
        if depth > MAX_DEPTH or len(text) > MAX_TEXT_CHARS or self._work > _MAX_WORK:
            self.complete = False
            return
        self._seen_texts.add(text)
        self._work += len(text)
        plain = parse_plain(text)
        if isinstance(plain, PlainScript):
            self.plain_scripts.append(plain)
            for command in plain.commands:
                self._add_command(command, depth)
        else:
            self._add_token_runs(tokenize_unparsed(text), depth)

    def _add_command(self, command: SimpleCommand, depth: int) -> None:
        self._add_words(command.words, depth)
        substituted = self._substitute_variables(command.words)
        if substituted is not None:
            self._add_words(substituted, depth)
        for assignment in command.assignments:
            self._record_assignment(assignment)

    def _add_words(self, words: tuple[Word, ...], depth: int) -> None:
        key = tuple(word.raw for word in words)
        if not words or key in self._seen_words:
            return
        if self._work > _MAX_WORK:
            self.complete = False
            return
        self._seen_words.add(key)
        self.commands.append(words)
        self._add_lines(words)
        self._add_nested(words, depth)

    def _add_lines(self, words: tuple[Word, ...]) -> None:
        """As it is, with expansions as they are written, and without the program's directory."""
        shapes = [word.shape for word in words]
        name = PurePosixPath(shapes[0]).name
        for line in (shapes, [word.value for word in words], [name, *shapes[1:]]):
            joined = SEPARATOR.join(line)
            self._work += len(joined)
            self.lines.append(joined)

    def _add_nested(self, words: tuple[Word, ...], depth: int) -> None:
        name = get_program_name(words)
        shorter = strip_git_options(words)
        if shorter is not None:
            self._add_words(shorter, depth)
        if name in DECLARATION_BUILTINS:
            self._record_declarations(words)
        if name in SHELLS:
            for word in _select_script_words(words):
                self._add_script_argument(word, depth)
        if name in SHELL_TEXT_BUILTINS:
            self.add_text(" ".join(word.value for word in words[1:]), depth + 1)
            for word in words[1:]:
                self._add_script_argument(word, depth)
        if name in SUBSTITUTING_BUILTINS:
            for word in words[1:]:
                if "$(" in word.value or "`" in word.value:
                    self._add_token_runs(tokenize_unparsed(word.value), depth)
        self._add_wrapped(words, depth)

    def _add_wrapped(self, words: tuple[Word, ...], depth: int) -> None:
        found = find_wrapped_command(words)
        if found is None:
            return
        for start in found.starts:
            self._add_words(words[start:], depth)
        if not found.certain:
            # Some take a whole command line as one argument (`ssh host "…"`, `env -S "…"`).
            self.add_text(" ".join(word.value for word in words[1:]), depth + 1)
            for word in words[1:]:
                self._add_script_argument(word, depth)

    def _add_script_argument(self, word: Word, depth: int) -> None:
        """An argument that may be shell text: itself, or what is glued to an option."""
        text = word.value
        candidates = [text] if not text.startswith("-") else [text[2:], text.partition("=")[2]]
        for candidate in candidates:
            if candidate.strip():
                self.add_text(candidate, depth + 1)

    def _add_token_runs(self, runs: tuple[tuple[str, ...], ...], depth: int) -> None:
        self.partly_unparsed = self.partly_unparsed or depth > 0
        for run in runs:
            self.token_runs.append(run)
            based = tuple(PurePosixPath(token).name or token for token in run)
            if based != run:
                self.token_runs.append(based)
            self._work += sum(map(len, run)) * 2
            if any(token in _COMMAND_RUNNERS for token in based):
                for token in run:
                    if any(blank in token for blank in " \t\n;"):
                        self.add_text(token, depth + 1)

    def _record_declarations(self, words: tuple[Word, ...]) -> None:
        for word in words[1:]:
            name, equals, value = word.value.partition("=")
            if equals and word.fixed:
                self._variables[name] = value

    def _record_assignment(self, assignment: Assignment) -> None:
        """Every value that a name may have had is not kept: the last one is, as bash would."""
        if assignment.value.fixed:
            self._variables[assignment.name] = assignment.value.value

    def _substitute_variables(self, words: tuple[Word, ...]) -> tuple[Word, ...] | None:
        """The words with the variables that the text itself has set; None where there are none."""
        if all(word.fixed for word in words):
            return None
        changed: list[Word] = []
        for word in words:
            changed.extend(self._substitute_word(word))
        result = tuple(changed)
        return None if result == words else result

    def _substitute_word(self, word: Word) -> list[Word]:
        pieces = [
            Literal(self._variables[piece.name])
            if isinstance(piece, Variable) and piece.name in self._variables
            else piece
            for piece in word.pieces
        ]
        filled = Word(word.raw, tuple(pieces))
        splits = any(isinstance(piece, Variable) and not piece.quoted for piece in word.pieces)
        if not (splits and filled.fixed):
            return [Word(filled.shape, filled.pieces)]
        return [Word(part, (Literal(part),)) for part in filled.value.split()]


def _select_script_words(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """What a shell may take for shell text: a script's own arguments are none."""
    takes_options = len(words) > 1 and (words[1].value[:1] in "-+" or not words[1].fixed)
    return words[1:] if takes_options else words[1:2]


def skip_to_program(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """The run from its first word that can be a program's name."""
    at = 0
    while at < len(tokens) and (
        tokens[at] in RESERVED or tokens[at] in _COMMAND_RUNNERS or "=" in tokens[at]
    ):
        at += 1
    return tokens[at:]
