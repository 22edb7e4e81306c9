"""One shell text, read by both readers: its commands at every depth, and whether they only look."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from mcp_dispatch.shell.arguments import ProgramSpec, ReadSpec, to_literal_text
from mcp_dispatch.shell.ast import (
    Assignment,
    Form,
    PlainScript,
    Redirect,
    SimpleCommand,
    UnparsedScript,
    Word,
)
from mcp_dispatch.shell.git_config import is_git_config_safe
from mcp_dispatch.shell.plain_parser import UnsupportedSyntax
from mcp_dispatch.shell.safe_programs import READ_ONLY_PROGRAMS
from mcp_dispatch.shell.script_parser import parse_script
from mcp_dispatch.shell.tree_sitter import matches_grammar

SAFE_VARIABLES = frozenset(
    {
        *("NODE_ENV", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ", "NO_COLOR"),
        *("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "COLUMNS", "LINES"),
    }
)
"""They change language, colour and the like; before a command they change nothing else."""

_SAFE_VALUE = re.compile(r"[A-Za-z0-9_.:/+@-]*")
_NULL_DEVICE = "/dev/null"
_MAX_NAME_WORDS = max(map(len, READ_ONLY_PROGRAMS))


class ReadOnlyStatus(Enum):
    READ_ONLY = "read-only"
    NOT_READ_ONLY = "not read-only"
    UNKNOWN = "unknown"


ReadSpecs: TypeAlias = tuple[ReadSpec | None, ...]


@dataclass(frozen=True, slots=True)
class ScriptAnalysis:
    """`looks` has one entry for each command of `reading`: None where it may do more than look.

    Files that redirects write are not among what a command does; the verdict counts them.
    READ_ONLY is said of what commands are and of their form; whether what they look at may be
    seen, and what a repository's configuration makes of git, is for the caller to find out.
    """

    script: PlainScript | UnparsedScript
    read_specs: ReadSpecs
    status: ReadOnlyStatus


def analyze_script(text: str) -> ScriptAnalysis:
    reading = parse_shell_text(text)
    if isinstance(reading, UnparsedScript):
        return ScriptAnalysis(reading, (), ReadOnlyStatus.UNKNOWN)
    looks = tuple(map(find_read_spec, reading.commands))
    # Loops may never end, and a command that another one writes is not known.
    read_only = (
        reading.form is Form.FLAT
        and None not in looks
        and not any(map(_has_write, reading.commands))
    )
    return ScriptAnalysis(
        reading, looks, ReadOnlyStatus.READ_ONLY if read_only else ReadOnlyStatus.NOT_READ_ONLY
    )


def parse_shell_text(text: str) -> PlainScript | UnparsedScript:
    """The commands of a text that both readers read alike."""
    if not text.strip(" \t\n"):
        return PlainScript(())
    try:
        script = parse_script(text)
    except UnsupportedSyntax as refused:
        return UnparsedScript(str(refused))
    if not matches_grammar(text, script):
        return UnparsedScript("it can be read in two ways")
    return PlainScript(script.commands, script.form, script.loops)


def find_read_spec(command: SimpleCommand) -> ReadSpec | None:
    """What a command looks at; None where it is not certain that it does nothing else."""
    if not all(map(is_harmless_assignment, command.assignments)):
        return None
    # Redirects without a command are those of a group.
    alone = not command.words and not command.assignments
    look = ReadSpec() if alone else _analyze_words(command.words)
    redirected = _list_read_targets(command.redirects)
    if look is None or redirected is None:
        return None
    return replace(look, paths=(*look.paths, *redirected)) if redirected else look


def _has_write(command: SimpleCommand) -> bool:
    return any(one.writes and one.target.raw != _NULL_DEVICE for one in command.redirects)


def is_harmless_assignment(assignment: Assignment) -> bool:
    """Whether it sets nothing but language, colour and the like."""
    return (
        assignment.name in SAFE_VARIABLES
        and assignment.value.fixed
        and _SAFE_VALUE.fullmatch(assignment.value.value) is not None
    )


def _analyze_words(words: tuple[Word, ...]) -> ReadSpec | None:
    words = _strip_git_options(words)
    # A name in quotes, or with a directory, is not the name of the program that we know.
    for length in range(min(_MAX_NAME_WORDS, len(words)), 0, -1):
        program = READ_ONLY_PROGRAMS.get(tuple(word.raw for word in words[:length]))
        if isinstance(program, ProgramSpec):
            return program.analyze(words[length:])
        if program is not None:
            arguments = _to_literal_texts(words[length:])
            return None if arguments is None else program(arguments)
    return None


def _strip_git_options(words: tuple[Word, ...]) -> tuple[Word, ...]:
    if [word.raw for word in words[:2]] == ["git", "--no-pager"]:
        return (words[0], *words[2:])
    return words


def _to_literal_texts(words: Sequence[Word]) -> list[str] | None:
    texts = [to_literal_text(word) for word in words]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else None


def _list_read_targets(redirects: Sequence[Redirect]) -> tuple[str, ...] | None:
    """The files that redirects read; None where one is not plain."""
    targets = [(one, to_literal_text(one.target)) for one in redirects]
    if any(target is None for _, target in targets):
        return None
    return tuple(target for one, target in targets if one.reads and target is not None)


def is_read_only(command: str, cwd: Path) -> bool:
    """Whether it can run beside others: it changes nothing, the working directory included."""
    analysis = analyze_script(command)
    if analysis.status is not ReadOnlyStatus.READ_ONLY or not isinstance(
        analysis.script, PlainScript
    ):
        return False
    moves = any(one.words[:1] and one.words[0].raw == "cd" for one in analysis.script.commands)
    looks = [look for look in analysis.read_specs if look is not None]
    return not moves and all(
        has_no_side_effects(look, cwd, Path.home(), os.environ) for look in dict.fromkeys(looks)
    )


def has_no_side_effects(
    spec: ReadSpec, directory: Path, home: Path, environ: Mapping[str, str]
) -> bool:
    """Whether neither a variable nor the configuration of a repository makes it do more."""
    if any(name in environ for name in spec.unsafe_variables):
        return False
    return not spec.uses_repository or is_git_config_safe(directory, home, environ)
