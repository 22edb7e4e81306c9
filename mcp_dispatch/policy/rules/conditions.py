"""The rule in the `if` of a hook: whether it matches a call."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mcp_dispatch.fs.resolve import PathAnchors
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.policy.commands.pattern import CommandPattern, RuleMatch
from mcp_dispatch.policy.facts import CallFacts, build_anchors, collect_facts
from mcp_dispatch.policy.paths.pattern import PathPattern
from mcp_dispatch.policy.rules.allow import AllowRules
from mcp_dispatch.policy.rules.deny_ask import DenyAskRules
from mcp_dispatch.policy.rules.model import (
    MalformedRule,
    ParsedRule,
    PermissionRule,
    UnmatchablePattern,
)
from mcp_dispatch.policy.rules.parse import parse_rule
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.settings.layers import LayerKind
from mcp_dispatch.settings.settings import RuleText


class HookConditions:
    """Rules of `if`, parsed once each. A `/path` in them starts at the workspace.

    A hook may be a guard, so in doubt the rule matches (`MAYBE`): if it is malformed, or if the
    command is not understood. A rule matches a command line of which it matches one part. The
    match is certain (`YES`) only if it covers all parts, because a hook that allows the call
    allows the whole line.
    """

    def __init__(self, home: Path, workspace: Sequence[Path]) -> None:
        self._home = home
        self._workspace = tuple(workspace)
        self._ask_rules = cache(self._parse_ask_rule)
        self._allow_rules = cache(self._parse_allow_rule)

    def find_fault(self, text: str) -> str | None:
        """Return what is wrong with the rule, or None if it can be evaluated."""
        rule = self._parse(text, Effect.ASK)
        if isinstance(rule, MalformedRule):
            return rule.reason
        if isinstance(rule.specifier, UnmatchablePattern):
            return rule.advice or "no call can match it"
        return None

    def match(self, text: str, subject: Subject) -> RuleMatch:
        if self.find_fault(text) is not None:
            return RuleMatch.MAYBE
        facts = collect_facts(subject, self._home)
        anchors = build_anchors(self._home, self._workspace, subject.cwd)
        rule, ask_rules = self._ask_rules(text)
        matches = ask_rules.find_matching(facts, anchors)
        if not matches:
            return RuleMatch.MAYBE if _is_uncertain(rule, facts) else RuleMatch.NO
        if facts.parsed_command is None or rule.specifier is None:
            return matches[0][1]
        return RuleMatch.YES if self._covers(text, facts, anchors) else RuleMatch.MAYBE

    def _covers(self, text: str, facts: CallFacts, anchors: PathAnchors) -> bool:
        rules = self._allow_rules(text)
        return bool(rules.find_covering(facts, anchors, lambda _: False, lambda _: False))

    def _parse_ask_rule(self, text: str) -> tuple[PermissionRule, DenyAskRules]:
        rule = self._parse(text, Effect.ASK)
        assert isinstance(rule, PermissionRule), "a rule with a fault is never asked"
        return rule, DenyAskRules([rule])

    def _parse_allow_rule(self, text: str) -> AllowRules:
        rule = self._parse(text, Effect.ALLOW)
        return AllowRules([rule] if isinstance(rule, PermissionRule) else [])

    def _parse(self, text: str, effect: Effect) -> ParsedRule:
        start = self._workspace[0] if self._workspace else Path("/")
        return parse_rule(RuleText(effect, text, Path("if"), 1, LayerKind.FLAG, start))


def _is_uncertain(rule: PermissionRule, facts: CallFacts) -> bool:
    if isinstance(rule.specifier, CommandPattern):
        return facts.unparsed_reason is not None
    return isinstance(rule.specifier, PathPattern) and facts.unresolved_reason is not None
