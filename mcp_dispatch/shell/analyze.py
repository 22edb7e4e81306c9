"""One shell text, read by both readers: its commands at every depth, and whether they only look."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TypeAlias

from mcp_dispatch.shell.arguments import Look, Program, text_of
from mcp_dispatch.shell.ast import (
    Assignment,
    Form,
    Plain,
    Redirect,
    SimpleCommand,
    Unknown,
    Word,
)
from mcp_dispatch.shell.git_config import names_no_program
from mcp_dispatch.shell.plain_parser import NotPlain
from mcp_dispatch.shell.safe_programs import READING
from mcp_dispatch.shell.script_parser import read_script
from mcp_dispatch.shell.tree_sitter import agrees

SAFE_VARIABLES = frozenset(
    {
        *("NODE_ENV", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ", "NO_COLOR"),
        *("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "COLUMNS", "LINES"),
    }
)
"""They change language, colour and the like; before a command they change nothing else."""

_SAFE_VALUE = re.compile(r"[A-Za-z0-9_.:/+@-]*")
_NOWHERE = "/dev/null"
_LONGEST_NAME = max(map(len, READING))


class Verdict(Enum):
    READ_ONLY = "read-only"
    NOT_READ_ONLY = "not read-only"
    UNKNOWN = "unknown"


Looks: TypeAlias = tuple[Look | None, ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    """`looks` has one entry for each command of `reading`: None where it may do more than look.

    Files that redirects write are not among what a command does; the verdict counts them.
    READ_ONLY is said of what commands are and of their form; whether what they look at may be
    seen, and what a repository's configuration makes of git, is for the caller to find out.
    """

    reading: Plain | Unknown
    looks: Looks
    verdict: Verdict


def analyse(text: str) -> Analysis:
    reading = understood(text)
    if isinstance(reading, Unknown):
        return Analysis(reading, (), Verdict.UNKNOWN)
    looks = tuple(map(look_of, reading.commands))
    # Loops may never end, and a command that another one writes is not known.
    read_only = (
        reading.form is Form.FLAT and None not in looks and not any(map(_writes, reading.commands))
    )
    return Analysis(reading, looks, Verdict.READ_ONLY if read_only else Verdict.NOT_READ_ONLY)


def understood(text: str) -> Plain | Unknown:
    """The commands of a text that both readers read alike."""
    if not text.strip(" \t\n"):
        return Plain(())
    try:
        script = read_script(text)
    except NotPlain as refused:
        return Unknown(str(refused))
    if not agrees(text, script):
        return Unknown("it can be read in two ways")
    return Plain(script.commands, script.form, script.loops)


def look_of(command: SimpleCommand) -> Look | None:
    """What a command looks at; None where it is not certain that it does nothing else."""
    if not all(map(is_harmless, command.assignments)):
        return None
    # Redirects without a command are those of a group.
    alone = not command.words and not command.assignments
    look = Look() if alone else _look(command.words)
    redirected = _redirected(command.redirects)
    if look is None or redirected is None:
        return None
    return replace(look, paths=(*look.paths, *redirected)) if redirected else look


def _writes(command: SimpleCommand) -> bool:
    return any(one.writes and one.target.raw != _NOWHERE for one in command.redirects)


def is_harmless(assignment: Assignment) -> bool:
    """Whether it sets nothing but language, colour and the like."""
    return (
        assignment.name in SAFE_VARIABLES
        and assignment.value.fixed
        and _SAFE_VALUE.fullmatch(assignment.value.value) is not None
    )


def _look(words: tuple[Word, ...]) -> Look | None:
    words = _without_options_of_git(words)
    # A name in quotes, or with a directory, is not the name of the program that we know.
    for length in range(min(_LONGEST_NAME, len(words)), 0, -1):
        program = READING.get(tuple(word.raw for word in words[:length]))
        if isinstance(program, Program):
            return program.look(words[length:])
        if program is not None:
            arguments = _texts(words[length:])
            return None if arguments is None else program(arguments)
    return None


def _without_options_of_git(words: tuple[Word, ...]) -> tuple[Word, ...]:
    if [word.raw for word in words[:2]] == ["git", "--no-pager"]:
        return (words[0], *words[2:])
    return words


def _texts(words: Sequence[Word]) -> list[str] | None:
    texts = [text_of(word) for word in words]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else None


def _redirected(redirects: Sequence[Redirect]) -> tuple[str, ...] | None:
    """The files that redirects read; None where one is not plain."""
    targets = [(one, text_of(one.target)) for one in redirects]
    if any(target is None for _, target in targets):
        return None
    return tuple(target for one, target in targets if one.reads and target is not None)


def is_read_only(command: str, cwd: Path) -> bool:
    """Whether it can run beside others: it changes nothing, the working directory included."""
    analysis = analyse(command)
    if analysis.verdict is not Verdict.READ_ONLY or not isinstance(analysis.reading, Plain):
        return False
    moves = any(one.words[:1] and one.words[0].raw == "cd" for one in analysis.reading.commands)
    looks = [look for look in analysis.looks if look is not None]
    return not moves and all(
        only_looks(look, cwd, Path.home(), os.environ) for look in dict.fromkeys(looks)
    )


def only_looks(look: Look, directory: Path, home: Path, environ: Mapping[str, str]) -> bool:
    """Whether neither a variable nor the configuration of a repository makes it do more."""
    if any(name in environ for name in look.variables):
        return False
    return not look.repository or names_no_program(directory, home, environ)
