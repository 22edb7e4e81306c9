"""Deny and ask rules: which of them match a call. In doubt, a rule matches."""

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
    ParsedRule,
    PermissionRule,
    Target,
    ToolTarget,
    UnmatchablePattern,
)
from mcp_dispatch.policy.subject import Subject

_READ = ToolTarget("Read")


class DenyAskRules:
    """Deny and ask rules, indexed by kind, so that a decision costs little with many rules.

    There is an index only for the kinds of rules that exist. `empty`: there are no rules.
    """

    def __init__(self, rules: Sequence[ParsedRule]) -> None:
        self._rules = tuple(rules)
        self.empty = not self._rules
        bare: dict[int, Target] = {}
        parameters: dict[int, Target] = {}
        domains: dict[int, DomainPattern] = {}
        commands: dict[int, CommandPattern] = {}
        files: dict[tuple[bool, Effect], dict[int, PathPattern]] = {}
        for position, rule in enumerate(self._rules):
            match None if isinstance(rule, MalformedRule) else rule.specifier:
                case None:
                    if rule.target is not None:
                        bare[position] = rule.target
                case CommandPattern() as pattern:
                    commands[position] = pattern
                case PathPattern() as pattern:
                    kind = (rule.target == _READ, rule.effect)
                    files.setdefault(kind, {})[position] = pattern
                case DomainPattern() as pattern:
                    domains[position] = pattern
                case ParameterPattern():
                    if rule.target is not None:
                        parameters[position] = rule.target
                case UnmatchablePattern():
                    continue
        self._bare_rules = TargetIndex(bare) if bare else None
        self._parameter_rules = TargetIndex(parameters) if parameters else None
        self._commands = CommandIndex(commands) if commands else None
        self._domains = DomainIndex(domains) if domains else None
        self._path_rules = {
            kind: PathRules(patterns, wide=True) for kind, patterns in files.items()
        }

    @property
    def read_denies(self) -> PathRules:
        """The patterns of files that must not be shown at all."""
        return self._path_rules.get((True, Effect.DENY)) or PathRules({}, wide=True)

    @property
    def read_rules(self) -> list[PathRules]:
        """The patterns of files that are denied or need an answer before they are shown."""
        return [rules for (is_read, _), rules in self._path_rules.items() if is_read]

    def find_matching(
        self, facts: CallFacts, anchors: PathAnchors
    ) -> list[tuple[ParsedRule, RuleMatch]]:
        """Return the rules that match the call, in the order of the settings files."""
        matches = dict.fromkeys(self._match_certainly(facts, anchors), RuleMatch.YES)
        if facts.parsed_command is not None and self._commands is not None:
            matches.update(self._commands.find_matches(facts.parsed_command))
        return [(self._rules[position], matches[position]) for position in sorted(matches)]

    def find_tool_deny(self, subject: Subject) -> PermissionRule | None:
        """Return the first rule that denies every call of the tool."""
        if self._bare_rules is None:
            return None
        for position in sorted(self._bare_rules.find_covering(subject, strict=False)):
            rule = self._rules[position]
            if isinstance(rule, PermissionRule) and rule.effect is Effect.DENY:
                return rule
        return None

    def find_server_deny(self, server: str) -> ParsedRule | None:
        """Return the first rule that denies all tools of the server."""
        for rule in self._rules:
            bare = isinstance(rule, MalformedRule) or rule.specifier is None
            if not bare or rule.effect is not Effect.DENY or rule.target is None:
                continue
            if rule.target.covers_server(server):
                return rule
        return None

    def _match_certainly(self, facts: CallFacts, anchors: PathAnchors) -> Iterator[int]:
        """Yield the positions of matching rules, except those about commands."""
        subject = facts.subject
        if self._bare_rules is not None:
            yield from self._bare_rules.find_covering(subject, strict=False)
        if self._parameter_rules is not None:
            yield from self._match_arguments(self._parameter_rules, subject)
        if subject.url is not None and self._domains is not None:
            yield from self._domains.find_covering(parse_host(subject.url))
        if self._path_rules:
            yield from self._match_files(facts, anchors)

    def _match_arguments(self, rules: TargetIndex, subject: Subject) -> Iterator[int]:
        for position in rules.find_candidates(subject):
            rule = self._rules[position]
            if isinstance(rule, MalformedRule) or not isinstance(rule.specifier, ParameterPattern):
                continue
            if rule.specifier.matches(subject) and rule.target.covers(subject, strict=False):
                yield position

    def _match_files(self, facts: CallFacts, anchors: PathAnchors) -> Iterator[int]:
        """A Read deny also applies to Edit and Write, whose results show the content."""
        reads = (*facts.reads, *facts.shell_reads)
        writes = (*facts.writes, *facts.shell_writes)
        is_notebook = facts.subject.rule_name == "NotebookEdit"
        shown = facts.shell_writes if is_notebook else writes
        for (is_read, effect), rules in self._path_rules.items():
            files = reads if is_read else writes
            denies_read = is_read and effect is Effect.DENY
            yield from rules.find_covering_any((*files, *shown) if denies_read else files, anchors)
