"""Suggests rules that would allow a call, and the narrow ones that a lasting approval stores."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from mcp_dispatch.policy.commands.wrappers import (
    SHELL_TEXT_BUILTINS,
    SHELLS,
    SUBSTITUTING_BUILTINS,
    get_program_name,
    is_wrapper,
)
from mcp_dispatch.policy.domains import parse_host
from mcp_dispatch.policy.facts import CallFacts
from mcp_dispatch.shell.ast import PlainScript, SimpleCommand, Word

_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]*")
_INTERPRETERS = re.compile(r"(?:python|pypy|node|deno|bun|ruby|perl|php|lua|awk|gawk|tclsh)[0-9.]*")
_RUN_SUBCOMMANDS = frozenset({"run", "exec", "x", "dlx"})
_RUNNERS = SHELLS | SHELL_TEXT_BUILTINS | SUBSTITUTING_BUILTINS | {"find", "ssh"}
_PATTERN_CHARACTERS = re.compile(r"([\\*?\[\]])")


def format_allow_line(facts: CallFacts) -> str:
    """Return a line for `permissions`: `"allow": ["Bash(npm test:*)"]`."""
    return f'"allow": {json.dumps(list(suggest_rules(facts)), ensure_ascii=False)}'


def suggest_rules(facts: CallFacts) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_iter_suggested_rules(facts)))


def _iter_suggested_rules(facts: CallFacts) -> Iterator[str]:
    subject = facts.subject
    host = None if subject.url is None else parse_host(subject.url)
    if facts.parsed_command is not None:
        yield from _iter_suggested_command_rules(facts)
    elif facts.writes or facts.reads:
        tool = "Edit" if facts.writes else "Read"
        for names in facts.writes or facts.reads:
            yield from (format_directory_rule(tool, name.parent) for name in names)
    else:
        yield subject.rule_name if host is None else f"WebFetch(domain:{host})"


def format_directory_rule(tool: str, directory: Path) -> str:
    path = _escape_path(directory)
    return f"{tool}(//{path}/**)" if path else f"{tool}(//**)"


def format_file_rule(tool: str, file: Path) -> str:
    return f"{tool}(//{_escape_path(file)})"


def _escape_path(path: Path) -> str:
    """Return the path without its leading slash, and with pattern characters escaped."""
    return _PATTERN_CHARACTERS.sub(r"\\\1", str(path)).strip("/")


def _iter_suggested_command_rules(facts: CallFacts) -> Iterator[str]:
    command_line = facts.parsed_command
    if command_line is None or not isinstance(command_line.script, PlainScript):
        yield "Bash"
        return
    if any(not command.words or command.assignments for command in command_line.script.commands):
        yield f"Bash({command_line.text.strip()})"
    else:
        yield from map(format_command_rule, command_line.script.commands)
    for names in facts.shell_writes if facts.shell_access and facts.shell_access.redirects else ():
        yield from (format_directory_rule("Edit", name.parent) for name in names)


def format_command_rule(command: SimpleCommand) -> str:
    """Return a prefix rule, or an exact rule for a program that runs other programs."""
    words = command.words
    name = get_program_name(words)
    runs_others = is_wrapper(words) or name in _RUNNERS
    if runs_others or _INTERPRETERS.fullmatch(name):
        return f"Bash({' '.join(word.raw for word in words)})"
    return f"Bash({' '.join(word.raw for word in select_prefix_words(words))}:*)"


def select_prefix_words(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the program and its subcommand; after `run` and similar words also the next."""
    length = 1
    while length < min(len(words), 3) and words[length].fixed:
        is_subcommand = length == 1 or words[length - 1].raw in _RUN_SUBCOMMANDS
        if not (is_subcommand and _SUBCOMMAND.fullmatch(words[length].raw)):
            break
        length += 1
    return words[:length]


MAX_LASTING_RULES = 5
"""The limit of Claude Code: users do not read longer lists."""

MAX_RULE_CHARS = 300
"""A longer rule cannot be checked at a glance, so it is not stored."""

_SEARCH_TOOLS = frozenset({"Glob", "Grep"})
_BROAD_PROGRAMS = frozenset(
    {
        *("rm", "rmdir", "unlink", "shred", "dd", "truncate", "chmod", "chown", "chgrp", "kill"),
        *("pkill", "killall", "curl", "wget", "nc", "ncat", "telnet", "scp", "sftp", "rsync"),
        # After an option of these, any of their subcommands may follow.
        *("git", "gh", "docker", "podman", "kubectl", "helm", "aws", "gcloud", "az", "terraform"),
        *("npm", "npx", "pnpm", "yarn", "pip", "pip3", "uv", "cargo", "go", "apt", "apt-get"),
        *("brew", "dnf", "yum", "pacman", "systemctl", "gem", "bundle", "composer", "gradle"),
    }
)
"""Programs whose name alone would allow much more than the approved call."""


def suggest_lasting_rules(
    facts: CallFacts, home: Path, working_directories: Sequence[Path]
) -> tuple[str, ...]:
    """Return candidate rules for the caller to check, or none if one of them is too long."""
    rules = tuple(dict.fromkeys(_iter_lasting_rules(facts, home, working_directories)))
    return () if any(len(rule) > MAX_RULE_CHARS for rule in rules) else rules


def _iter_lasting_rules(
    facts: CallFacts, home: Path, working_directories: Sequence[Path]
) -> Iterator[str]:
    subject = facts.subject
    if facts.parsed_command is not None:
        yield from _iter_lasting_command_rules(facts)
    elif facts.writes or facts.reads:
        tool = "Edit" if facts.writes else "Read"
        for names in facts.writes or facts.reads:
            for name in names:
                target = name if subject.rule_name in _SEARCH_TOOLS else name.parent
                is_wide = _is_wide(target, home, working_directories)
                yield (
                    format_file_rule(tool, name) if is_wide else format_directory_rule(tool, target)
                )
    elif subject.url is None:
        yield subject.rule_name
    elif (host := parse_host(subject.url)) is not None:
        yield f"WebFetch(domain:{host})"


def _is_wide(directory: Path, home: Path, working_directories: Sequence[Path]) -> bool:
    """Return whether the directory contains the home or a working directory."""
    return home.is_relative_to(directory) or any(
        working != directory and working.is_relative_to(directory)
        for working in working_directories
    )


def _iter_lasting_command_rules(facts: CallFacts) -> Iterator[str]:
    command_line = facts.parsed_command
    if command_line is None or not isinstance(command_line.script, PlainScript):
        return
    if any(not command.words or command.assignments for command in command_line.script.commands):
        texts = [command_line.text.strip()]
        yield from (f"Bash({text})" for text in texts if "*" not in text)
    else:
        for command in command_line.script.commands:
            yield from _iter_simple_command_rules(command)
    for names in facts.shell_writes if facts.shell_access and facts.shell_access.redirects else ():
        yield from (format_file_rule("Edit", name) for name in names)


def _iter_simple_command_rules(command: SimpleCommand) -> Iterator[str]:
    rule = format_command_rule(command)
    name = get_program_name(command.words)
    if (
        len(command.words) > 1
        and name in _BROAD_PROGRAMS
        and rule == f"Bash({command.words[0].raw}:*)"
    ):
        rule = f"Bash({' '.join(word.raw for word in command.words)})"
    # A `*` of the command would be a wildcard in the rule, so no rule is offered.
    if "*" not in rule.removesuffix(":*)"):
        yield rule
