"""Which deny and ask rules speak about a call. In doubt they do."""

from collections.abc import Iterator, Sequence

from mcp_dispatch.fs.resolve import Places
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.policy.commands.pattern import CommandPattern, Match
from mcp_dispatch.policy.domains import DomainPattern, host_of
from mcp_dispatch.policy.facts import Evidence
from mcp_dispatch.policy.paths.pattern import PathPattern
from mcp_dispatch.policy.paths.rules import PathRules
from mcp_dispatch.policy.rules.index import CommandIndex, DomainIndex, NameIndex
from mcp_dispatch.policy.rules.model import Malformed, Nothing, Parameter, Rule, Target, ToolNamed
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.shell.ast import Unknown

_READ = ToolNamed("Read")
AnyRule = Rule | Malformed


class ClosedRules:
    """Deny and ask rules, filed by what they are about: a thousand cost hardly more than ten."""

    def __init__(self, rules: Sequence[AnyRule]) -> None:
        self._rules = tuple(rules)
        bare: dict[int, Target] = {}
        by_argument: dict[int, Target] = {}
        domains: dict[int, DomainPattern] = {}
        commands: dict[int, CommandPattern] = {}
        files: dict[tuple[bool, Effect], dict[int, PathPattern]] = {}
        for at, rule in enumerate(self._rules):
            match None if isinstance(rule, Malformed) else rule.specifier:
                case None:
                    if rule.target is not None:
                        bare[at] = rule.target
                case CommandPattern() as pattern:
                    commands[at] = pattern
                case PathPattern() as pattern:
                    kind = (rule.target == _READ, rule.effect)
                    files.setdefault(kind, {})[at] = pattern
                case DomainPattern() as pattern:
                    domains[at] = pattern
                case Parameter():
                    if rule.target is not None:
                        by_argument[at] = rule.target
                case Nothing():
                    continue
        self._bare = NameIndex(bare)
        self._by_argument = NameIndex(by_argument)
        self._commands = CommandIndex(commands)
        self._domains = DomainIndex(domains)
        self._files = {kind: PathRules(patterns, wide=True) for kind, patterns in files.items()}

    @property
    def read_denies(self) -> PathRules:
        """The patterns of files that nothing may show."""
        return self._files.get((True, Effect.DENY)) or PathRules({}, wide=True)

    @property
    def reads(self) -> list[PathRules]:
        """The patterns of files that are not shown without more ado: denied or to be asked for."""
        return [rules for (reading, _), rules in self._files.items() if reading]

    def about(self, evidence: Evidence, places: Places) -> list[tuple[AnyRule, Match]]:
        """The rules that mean the call, in the order of the files."""
        found = dict.fromkeys(self._bare.covering(evidence.subject, strictly=False), Match.YES)
        found.update(dict.fromkeys(self._of_arguments(evidence.subject), Match.YES))
        if evidence.subject.url is not None:
            host = host_of(evidence.subject.url)
            found.update(dict.fromkeys(self._domains.covering(host), Match.YES))
        if evidence.reading is not None:
            found.update(self._commands.matching(evidence.reading))
        found.update(dict.fromkeys(self._of_files(evidence, places), Match.YES))
        return [(self._rules[at], match) for at, match in sorted(found.items(), key=_position)]

    def taking_away(self, subject: Subject) -> Rule | None:
        """The first deny of the tool as a whole."""
        for at in sorted(self._bare.covering(subject, strictly=False)):
            rule = self._rules[at]
            if isinstance(rule, Rule) and rule.effect is Effect.DENY:
                return rule
        return None

    def closing_server(self, server: str) -> AnyRule | None:
        """The first deny that leaves no tool of the server."""
        for rule in self._rules:
            whole = isinstance(rule, Malformed) or rule.specifier is None
            if not whole or rule.effect is not Effect.DENY or rule.target is None:
                continue
            if rule.target.covers_server(server):
                return rule
        return None

    def _of_arguments(self, subject: Subject) -> Iterator[int]:
        for at in self._by_argument.candidates(subject):
            rule = self._rules[at]
            if isinstance(rule, Malformed) or not isinstance(rule.specifier, Parameter):
                continue
            if rule.specifier.matches(subject) and rule.target.covers(subject, strictly=False):
                yield at

    def _of_files(self, evidence: Evidence, places: Places) -> Iterator[int]:
        """A Read deny also closes a file to Edit and Write, which would show what is in it."""
        read = (*evidence.reads, *evidence.shell_reads)
        written = (*evidence.writes, *evidence.shell_writes)
        shown = evidence.shell_writes if _is_notebook(evidence.subject) else written
        for (reading, effect), rules in self._files.items():
            files = read if reading else written
            denies = reading and effect is Effect.DENY
            yield from rules.covering_any((*files, *shown) if denies else files, places)


def _position(found: tuple[int, Match]) -> int:
    return found[0]


def _is_notebook(subject: Subject) -> bool:
    return subject.rule_name == "NotebookEdit"


def not_understood(evidence: Evidence) -> str | None:
    """Why a shell command is not known in all its parts."""
    read = evidence.reading
    if read is None:
        return None
    if isinstance(read.plain, Unknown):
        return read.plain.reason
    return "a part of it is not plain" if read.unread or not read.complete else None
