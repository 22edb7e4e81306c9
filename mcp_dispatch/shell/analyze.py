"""Analyzes a shell script: its commands at every depth, and whether they only read."""

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
from mcp_dispatch.shell.safe_programs import READ_ONLY_PROGRAMS
from mcp_dispatch.shell.script_parser import parse_script
from mcp_dispatch.shell.syntax import UnsupportedSyntax
from mcp_dispatch.shell.tree_sitter import matches_grammar

SAFE_VARIABLES = frozenset(
    {
        *("NODE_ENV", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ", "NO_COLOR"),
        *("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "COLUMNS", "LINES"),
    }
)
"""Variables that only change language, colour and similar output of a command."""

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
    """`read_specs` has one entry for each command of `script`; None if it may do more than read.

    An entry ignores the files that redirects write; `status` does not. READ_ONLY is about the
    programs, their arguments and the form of the script. The caller must check whether the files
    may be read, and what the configuration of a repository makes git do.
    """

    script: PlainScript | UnparsedScript
    read_specs: ReadSpecs
    status: ReadOnlyStatus


def analyze_script(text: str) -> ScriptAnalysis:
    script = parse_shell_text(text)
    if isinstance(script, UnparsedScript):
        return ScriptAnalysis(script, (), ReadOnlyStatus.UNKNOWN)
    specs = tuple(map(find_read_spec, script.commands))
    # A loop may not end, and the output of a substitution is not known.
    read_only = (
        script.form is Form.FLAT and None not in specs and not any(map(_has_write, script.commands))
    )
    return ScriptAnalysis(
        script, specs, ReadOnlyStatus.READ_ONLY if read_only else ReadOnlyStatus.NOT_READ_ONLY
    )


def parse_shell_text(text: str) -> PlainScript | UnparsedScript:
    """Parse a text; the result is unparsed if tree-sitter parses it differently."""
    if not text.strip(" \t\n"):
        return PlainScript(())
    try:
        script = parse_script(text)
    except UnsupportedSyntax as error:
        return UnparsedScript(str(error))
    if not matches_grammar(text, script):
        return UnparsedScript("it can be read in two ways")
    return PlainScript(script.commands, script.form, script.loops)


def find_read_spec(command: SimpleCommand) -> ReadSpec | None:
    """Return what a command reads, or None if it may do more than read."""
    if not all(map(is_harmless_assignment, command.assignments)):
        return None
    # Redirects without a program belong to a group.
    only_redirects = not command.words and not command.assignments
    spec = ReadSpec() if only_redirects else _analyze_words(command.words)
    read_targets = _list_read_targets(command.redirects)
    if spec is None or read_targets is None:
        return None
    return replace(spec, paths=(*spec.paths, *read_targets)) if read_targets else spec


def _has_write(command: SimpleCommand) -> bool:
    return any(
        redirect.writes and redirect.target.raw != _NULL_DEVICE for redirect in command.redirects
    )


def is_harmless_assignment(assignment: Assignment) -> bool:
    """Return whether it only sets language, colour and similar output."""
    return (
        assignment.name in SAFE_VARIABLES
        and assignment.value.fixed
        and _SAFE_VALUE.fullmatch(assignment.value.value) is not None
    )


def _analyze_words(words: tuple[Word, ...]) -> ReadSpec | None:
    words = _strip_git_options(words)
    # A quoted name, or one with a directory, may be another program.
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
    """Return the files that redirects read, or None if a target is not plain."""
    targets = [(redirect, to_literal_text(redirect.target)) for redirect in redirects]
    if any(target is None for _, target in targets):
        return None
    return tuple(target for redirect, target in targets if redirect.reads and target is not None)


def is_read_only(text: str, cwd: Path) -> bool:
    """Return whether the command can run in parallel: it changes neither files nor directory."""
    analysis = analyze_script(text)
    if analysis.status is not ReadOnlyStatus.READ_ONLY or not isinstance(
        analysis.script, PlainScript
    ):
        return False
    changes_directory = any(
        command.words[:1] and command.words[0].raw == "cd" for command in analysis.script.commands
    )
    specs = [spec for spec in analysis.read_specs if spec is not None]
    return not changes_directory and all(
        has_no_side_effects(spec, cwd, Path.home(), os.environ) for spec in dict.fromkeys(specs)
    )


def has_no_side_effects(
    spec: ReadSpec, directory: Path, home: Path, environ: Mapping[str, str]
) -> bool:
    """Return whether neither a variable nor a git configuration makes the command do more."""
    if any(name in environ for name in spec.unsafe_variables):
        return False
    return not spec.uses_repository or is_git_config_safe(directory, home, environ)
