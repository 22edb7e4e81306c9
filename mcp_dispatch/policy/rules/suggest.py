"""The rules that a lasting yes to one call sets down: narrow, few, and about this call only."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from mcp_dispatch.policy.commands.wrappers import EVALUATING, EVALUATORS, SHELLS, program, wraps
from mcp_dispatch.policy.domains import host_of
from mcp_dispatch.policy.facts import Evidence
from mcp_dispatch.shell.ast import Plain, SimpleCommand, Word

_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]*")
_INTERPRETERS = re.compile(r"(?:python|pypy|node|deno|bun|ruby|perl|php|lua|awk|gawk|tclsh)[0-9.]*")
_RUNNING = frozenset({"run", "exec", "x", "dlx"})
_SPECIAL = re.compile(r"([\\*?\[\]])")


def allow_line(evidence: Evidence) -> str:
    """As it would stand in `permissions`: `"allow": ["Bash(npm test:*)"]`."""
    return f'"allow": {json.dumps(list(suggested_rules(evidence)), ensure_ascii=False)}'


def suggested_rules(evidence: Evidence) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_suggest_rules(evidence)))


def _suggest_rules(evidence: Evidence) -> Iterator[str]:
    subject = evidence.subject
    host = None if subject.url is None else host_of(subject.url)
    if evidence.reading is not None:
        yield from _suggest_for_command(evidence)
    elif evidence.writes or evidence.reads:
        tool = "Edit" if evidence.writes else "Read"
        for names in evidence.writes or evidence.reads:
            yield from (directory_rule(tool, name.parent) for name in names)
    else:
        yield subject.rule_name if host is None else f"WebFetch(domain:{host})"


def directory_rule(tool: str, directory: Path) -> str:
    inside = _spelled(directory)
    return f"{tool}(//{inside}/**)" if inside else f"{tool}(//**)"


def file_rule(tool: str, file: Path) -> str:
    return f"{tool}(//{_spelled(file)})"


def _spelled(path: Path) -> str:
    """Without the leading slash, and with nothing that a pattern would read as its own."""
    return _SPECIAL.sub(r"\\\1", str(path)).strip("/")


def _suggest_for_command(evidence: Evidence) -> Iterator[str]:
    read = evidence.reading
    if read is None or not isinstance(read.plain, Plain):
        yield "Bash"
        return
    if any(not command.words or command.assignments for command in read.plain.commands):
        yield f"Bash({read.text.strip()})"
    else:
        yield from map(command_rule, read.plain.commands)
    for names in evidence.shell_writes if evidence.shell and evidence.shell.redirects else ():
        yield from (directory_rule("Edit", name.parent) for name in names)


def command_rule(command: SimpleCommand) -> str:
    """A prefix where that grants one kind of thing; all of it for whatever runs other programs."""
    words = command.words
    name = program(words)
    runs_others = wraps(words) or name in SHELLS | EVALUATORS | EVALUATING | {"find", "ssh"}
    if runs_others or _INTERPRETERS.fullmatch(name):
        return f"Bash({' '.join(word.raw for word in words)})"
    return f"Bash({' '.join(word.raw for word in common_prefix(words))}:*)"


def common_prefix(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The program and its subcommand; with `npm run` and its like, what is run as well."""
    length = 1
    while length < min(len(words), 3) and words[length].fixed:
        runs = length == 1 or words[length - 1].raw in _RUNNING
        if not (runs and _SUBCOMMAND.fullmatch(words[length].raw)):
            break
        length += 1
    return words[:length]


MOST_RULES = 5
"""As in Claude Code: who reads a longer list reads it no more."""

LONGEST_RULE = 300
"""Characters. What cannot be read at a glance is not confirmed for good."""

_SEARCHING = frozenset({"Glob", "Grep"})
_SHARP = frozenset(
    {
        *("rm", "rmdir", "unlink", "shred", "dd", "truncate", "chmod", "chown", "chgrp", "kill"),
        *("pkill", "killall", "curl", "wget", "nc", "ncat", "telnet", "scp", "sftp", "rsync"),
        # Whatever follows an option of these may be any of their commands.
        *("git", "gh", "docker", "podman", "kubectl", "helm", "aws", "gcloud", "az", "terraform"),
        *("npm", "npx", "pnpm", "yarn", "pip", "pip3", "uv", "cargo", "go", "apt", "apt-get"),
        *("brew", "dnf", "yum", "pacman", "systemctl", "gem", "bundle", "composer", "gradle"),
    }
)
"""Programs whose bare name grants more than one yes can mean."""


def lasting_rules(evidence: Evidence, home: Path, working: Sequence[Path]) -> tuple[str, ...]:
    """Candidates, to be judged before they are offered; none where only a wide rule would do."""
    rules = tuple(dict.fromkeys(_rules(evidence, home, working)))
    return () if any(len(rule) > LONGEST_RULE for rule in rules) else rules


def _rules(evidence: Evidence, home: Path, working: Sequence[Path]) -> Iterator[str]:
    subject = evidence.subject
    if evidence.reading is not None:
        yield from _for_command(evidence)
    elif evidence.writes or evidence.reads:
        tool = "Edit" if evidence.writes else "Read"
        for names in evidence.writes or evidence.reads:
            for name in names:
                place = name if subject.rule_name in _SEARCHING else name.parent
                wide = _is_wide(place, home, working)
                yield file_rule(tool, name) if wide else directory_rule(tool, place)
    elif subject.url is None:
        yield subject.rule_name
    elif (host := host_of(subject.url)) is not None:
        yield f"WebFetch(domain:{host})"


def _is_wide(place: Path, home: Path, working: Sequence[Path]) -> bool:
    """Whether it holds more than somebody who looks at one file has in mind."""
    return home.is_relative_to(place) or any(
        each != place and each.is_relative_to(place) for each in working
    )


def _for_command(evidence: Evidence) -> Iterator[str]:
    read = evidence.reading
    if read is None or not isinstance(read.plain, Plain):
        return
    if any(not command.words or command.assignments for command in read.plain.commands):
        exact = [read.text.strip()]
        yield from (f"Bash({text})" for text in exact if "*" not in text)
    else:
        for command in read.plain.commands:
            yield from _for_one(command)
    for names in evidence.shell_writes if evidence.shell and evidence.shell.redirects else ():
        yield from (file_rule("Edit", name) for name in names)


def _for_one(command: SimpleCommand) -> Iterator[str]:
    rule = command_rule(command)
    name = program(command.words)
    if len(command.words) > 1 and name in _SHARP and rule == f"Bash({command.words[0].raw}:*)":
        rule = f"Bash({' '.join(word.raw for word in command.words)})"
    # In a rule a `*` stands for anything: such a command cannot be spelt.
    if "*" not in rule.removesuffix(":*)"):
        yield rule
