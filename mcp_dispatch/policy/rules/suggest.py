"""The rules that a lasting yes to one call sets down: narrow, few, and about this call only."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from mcp_dispatch.policy.commands.wrappers import program
from mcp_dispatch.policy.domains import host_of
from mcp_dispatch.policy.facts import Evidence
from mcp_dispatch.policy.rules.suggest__suggestion import command_rule, directory_rule, file_rule
from mcp_dispatch.shell.ast import Plain, SimpleCommand

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
