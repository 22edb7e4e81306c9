"""Which deny and ask rules speak about a call. In doubt they do."""

from collections.abc import Iterator, Sequence

from mcp_dispatch.fs.resolve import PathAnchors
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.policy.commands.pattern import CommandPattern, RuleMatch
from mcp_dispatch.policy.domains import DomainPattern, parse_host
from mcp_dispatch.policy.facts import CallFacts
from mcp_dispatch.policy.paths.pattern import PathPattern
from mcp_dispatch.policy.paths.rules import PathRules
from mcp_dispatch.policy.rules.index import CommandIndex, DomainIndex, TargetIndex
from mcp_dispatch.policy.rules.model import (
    MalformedRule,
    ParameterPattern,
    PermissionRule,
    Target,
    ToolTarget,
    UnmatchablePattern,
)
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.shell.ast import UnparsedScript

_READ = ToolTarget("Read")
ParsedRule = PermissionRule | MalformedRule


class DenyAskRules:
    """Deny and ask rules, filed by what they are about: a thousand cost hardly more than ten."""

    def __init__(self, rules: Sequence[ParsedRule]) -> None:
        self._rules = tuple(rules)
        bare: dict[int, Target] = {}
        by_argument: dict[int, Target] = {}
        domains: dict[int, DomainPattern] = {}
        commands: dict[int, CommandPattern] = {}
        files: dict[tuple[bool, Effect], dict[int, PathPattern]] = {}
        for at, rule in enumerate(self._rules):
            match None if isinstance(rule, MalformedRule) else rule.specifier:
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
                case ParameterPattern():
                    if rule.target is not None:
                        by_argument[at] = rule.target
                case UnmatchablePattern():
                    continue
        self._bare_rules = TargetIndex(bare)
        self._parameter_rules = TargetIndex(by_argument)
        self._commands = CommandIndex(commands)
        self._domains = DomainIndex(domains)
        self._path_rules = {
            kind: PathRules(patterns, wide=True) for kind, patterns in files.items()
        }

    @property
    def read_denies(self) -> PathRules:
        """The patterns of files that nothing may show."""
        return self._path_rules.get((True, Effect.DENY)) or PathRules({}, wide=True)

    @property
    def read_rules(self) -> list[PathRules]:
        """The patterns of files that are not shown without more ado: denied or to be asked for."""
        return [rules for (reading, _), rules in self._path_rules.items() if reading]

    def find_matching(
        self, facts: CallFacts, anchors: PathAnchors
    ) -> list[tuple[ParsedRule, RuleMatch]]:
        """The rules that mean the call, in the order of the files."""
        found = dict.fromkeys(
            self._bare_rules.find_covering(facts.subject, strict=False), RuleMatch.YES
        )
        found.update(dict.fromkeys(self._match_arguments(facts.subject), RuleMatch.YES))
        if facts.subject.url is not None:
            host = parse_host(facts.subject.url)
            found.update(dict.fromkeys(self._domains.find_covering(host), RuleMatch.YES))
        if facts.parsed_command is not None:
            found.update(self._commands.find_matches(facts.parsed_command))
        found.update(dict.fromkeys(self._match_files(facts, anchors), RuleMatch.YES))
        return [(self._rules[at], match) for at, match in sorted(found.items(), key=_get_position)]

    def find_tool_deny(self, subject: Subject) -> PermissionRule | None:
        """The first deny of the tool as a whole."""
        for at in sorted(self._bare_rules.find_covering(subject, strict=False)):
            rule = self._rules[at]
            if isinstance(rule, PermissionRule) and rule.effect is Effect.DENY:
                return rule
        return None

    def find_server_deny(self, server: str) -> ParsedRule | None:
        """The first deny that leaves no tool of the server."""
        for rule in self._rules:
            whole = isinstance(rule, MalformedRule) or rule.specifier is None
            if not whole or rule.effect is not Effect.DENY or rule.target is None:
                continue
            if rule.target.covers_server(server):
                return rule
        return None

    def _match_arguments(self, subject: Subject) -> Iterator[int]:
        for at in self._parameter_rules.find_candidates(subject):
            rule = self._rules[at]
            if isinstance(rule, MalformedRule) or not isinstance(rule.specifier, ParameterPattern):
                continue
            if rule.specifier.matches(subject) and rule.target.covers(subject, strict=False):
                yield at

    def _match_files(self, facts: CallFacts, anchors: PathAnchors) -> Iterator[int]:
        """A Read deny also closes a file to Edit and Write, which would show what is in it."""
        read = (*facts.reads, *facts.shell_reads)
        written = (*facts.writes, *facts.shell_writes)
        shown = facts.shell_writes if _is_notebook(facts.subject) else written
        for (reading, effect), rules in self._path_rules.items():
            files = read if reading else written
            denies = reading and effect is Effect.DENY
            yield from rules.find_covering_any((*files, *shown) if denies else files, anchors)


def _get_position(match: tuple[int, RuleMatch]) -> int:
    return match[0]


def _is_notebook(subject: Subject) -> bool:
    return subject.rule_name == "NotebookEdit"


def explain_incomplete_parse(facts: CallFacts) -> str | None:
    """Why a shell command is not known in all its parts."""
    read = facts.parsed_command
    if read is None:
        return None
    if isinstance(read.script, UnparsedScript):
        return read.script.reason
    return "a part of it is not plain" if read.partly_unparsed or not read.complete else None
