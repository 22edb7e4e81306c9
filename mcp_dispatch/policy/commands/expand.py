"""All command lines that a script may run, at any depth, for deny and ask rules."""

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
"""The maximum depth of scripts inside scripts."""

MAX_TEXT_CHARS = 128 * 1024
"""Longer scripts are not parsed: no kernel accepts a longer argument."""

_MAX_WORK = 2_000_000
_CACHE_SIZE = 32
_COMMAND_RUNNERS = frozenset({*SHELLS, *SHELL_TEXT_BUILTINS, *WRAPPERS, *OPAQUE_WRAPPERS})


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """All that a command may run. `lines` begin with a program; in `token_runs` any word may be one.

    `script` is the whole text, if both parsers agree on it, and `read_specs` has what each of its
    commands reads. `commands` are the simple commands of the lines, and `plain_scripts` the scripts
    that contain them, the outermost first. `partly_unparsed`: a nested script is not understood.
    `complete` is False if a limit was reached, so that there may be more commands.
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
    """Parse a command. The result is cached: hooks, rules and suggestions use the same one."""
    analysis = analyze_script(text)
    script = analysis.script
    collector = _CommandCollector()
    if isinstance(script, PlainScript) and isinstance(parse_plain(text), UnparsedScript):
        collector.add_compound(script)
    if not (collector.plain_scripts and _has_only_literal_programs(script)):
        collector.add_text(text, 0)
    return ParsedCommand(
        text=text,
        script=script,
        read_specs=analysis.read_specs,
        plain_scripts=tuple(collector.plain_scripts),
        commands=tuple(collector.commands),
        lines=tuple(dict.fromkeys(collector.lines)),
        token_runs=tuple(dict.fromkeys(collector.token_runs)),
        partly_unparsed=collector.partly_unparsed,
        complete=collector.complete,
    )


def _has_only_literal_programs(script: PlainScript | UnparsedScript) -> bool:
    """Return whether every program is literal, so that other words need not be searched."""
    return (
        isinstance(script, PlainScript)
        and script.form is not Form.SUBSTITUTING
        and all(command.words[0].fixed for command in script.commands if command.words)
    )


class _CommandCollector:
    """Collects the commands that one text may run."""

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
        """Add a script that is understood and not in the plain subset."""
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
        script = parse_plain(text)
        if isinstance(script, PlainScript):
            self.plain_scripts.append(script)
            for command in script.commands:
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
        """Add the line with and without its expansions, and without the program's directory."""
        shapes = [word.shape for word in words]
        name = PurePosixPath(shapes[0]).name
        for line in (shapes, [word.value for word in words], [name, *shapes[1:]]):
            joined = SEPARATOR.join(line)
            self._work += len(joined)
            self.lines.append(joined)

    def _add_nested(self, words: tuple[Word, ...], depth: int) -> None:
        name = get_program_name(words)
        without_options = strip_git_options(words)
        if without_options is not None:
            self._add_words(without_options, depth)
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
        wrapped = find_wrapped_command(words)
        if wrapped is None:
            return
        for start in wrapped.starts:
            self._add_words(words[start:], depth)
        if not wrapped.certain:
            # Some wrappers take a command line as one argument (`ssh host "…"`, `env -S "…"`).
            self.add_text(" ".join(word.value for word in words[1:]), depth + 1)
            for word in words[1:]:
                self._add_script_argument(word, depth)

    def _add_script_argument(self, word: Word, depth: int) -> None:
        """Add an argument that may be a script, or whose option value may be one."""
        text = word.value
        candidates = [text] if not text.startswith("-") else [text[2:], text.partition("=")[2]]
        for candidate in candidates:
            if candidate.strip():
                self.add_text(candidate, depth + 1)

    def _add_token_runs(self, runs: tuple[tuple[str, ...], ...], depth: int) -> None:
        self.partly_unparsed = self.partly_unparsed or depth > 0
        for run in runs:
            self.token_runs.append(run)
            base_names = tuple(PurePosixPath(token).name or token for token in run)
            if base_names != run:
                self.token_runs.append(base_names)
            self._work += sum(map(len, run)) * 2
            if any(token in _COMMAND_RUNNERS for token in base_names):
                for token in run:
                    if any(blank in token for blank in " \t\n;"):
                        self.add_text(token, depth + 1)

    def _record_declarations(self, words: tuple[Word, ...]) -> None:
        for word in words[1:]:
            name, equals, value = word.value.partition("=")
            if equals and word.fixed:
                self._variables[name] = value

    def _record_assignment(self, assignment: Assignment) -> None:
        """Keep the last value of a variable, as bash does."""
        if assignment.value.fixed:
            self._variables[assignment.name] = assignment.value.value

    def _substitute_variables(self, words: tuple[Word, ...]) -> tuple[Word, ...] | None:
        """Replace variables that the script has set; return None if there are none."""
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
        substituted = Word(word.raw, tuple(pieces))
        splits_words = any(
            isinstance(piece, Variable) and not piece.quoted for piece in word.pieces
        )
        if not (splits_words and substituted.fixed):
            return [Word(substituted.shape, substituted.pieces)]
        return [Word(part, (Literal(part),)) for part in substituted.value.split()]


def _select_script_words(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words that a shell may run as a script; arguments of a script file are not."""
    takes_options = len(words) > 1 and (words[1].value[:1] in "-+" or not words[1].fixed)
    return words[1:] if takes_options else words[1:2]


def skip_to_program(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tokens from the first one that can be the name of a program."""
    index = 0
    while index < len(tokens) and (
        tokens[index] in RESERVED or tokens[index] in _COMMAND_RUNNERS or "=" in tokens[index]
    ):
        index += 1
    return tokens[index:]
