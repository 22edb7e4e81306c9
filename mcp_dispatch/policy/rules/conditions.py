"""The rule in a hook's `if`: whether it speaks of a call."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mcp_dispatch.fs.resolve import Places
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.policy.commands.pattern import CommandPattern, Match
from mcp_dispatch.policy.facts import Evidence, gather
from mcp_dispatch.policy.paths.pattern import PathPattern
from mcp_dispatch.policy.rules.allow import AllowRules
from mcp_dispatch.policy.rules.deny_ask import ClosedRules, not_understood
from mcp_dispatch.policy.rules.model import Malformed, Nothing, Rule
from mcp_dispatch.policy.rules.parse import parse_rule
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.settings.layers import LayerKind
from mcp_dispatch.settings.settings import RuleText


class Conditions:
    """Rules of `if`, read once each. A `/path` in them starts at the workspace.

    A hook is a guard, so in doubt the rule speaks of the call (`MAYBE`): where it cannot be read,
    where the command is not understood. Of a command line it speaks where one part fits, and
    surely (`YES`) only where the whole is covered: what the hook allows is the whole line.
    """

    def __init__(self, home: Path, workspace: Sequence[Path]) -> None:
        self._home = home
        self._workspace = tuple(workspace)
        self._asking = cache(self._read_asking)
        self._allowing = cache(self._read_allowing)

    def fault(self, text: str) -> str | None:
        """What is wrong with the rule; None where it can be judged."""
        rule = self._parsed(text, Effect.ASK)
        if isinstance(rule, Malformed):
            return rule.reason
        if isinstance(rule.specifier, Nothing):
            return rule.advice or "no call can match it"
        return None

    def match(self, text: str, subject: Subject) -> Match:
        if self.fault(text) is not None:
            return Match.MAYBE
        evidence = gather(subject, self._home)
        here = (*self._workspace, *((subject.cwd,) if subject.cwd else ()))
        places = Places(self._home, tuple(dict.fromkeys(here)))
        rule, asking = self._asking(text)
        found = asking.about(evidence, places)
        if not found:
            return Match.MAYBE if _in_doubt(rule, evidence) else Match.NO
        if evidence.reading is None or rule.specifier is None:
            return found[0][1]
        return Match.YES if self._covers(text, evidence, places) else Match.MAYBE

    def _covers(self, text: str, evidence: Evidence, places: Places) -> bool:
        allowing = self._allowing(text)
        return bool(allowing.covering(evidence, places, lambda _: False, lambda _: False))

    def _read_asking(self, text: str) -> tuple[Rule, ClosedRules]:
        rule = self._parsed(text, Effect.ASK)
        assert isinstance(rule, Rule), "a rule with a fault is never asked"
        return rule, ClosedRules([rule])

    def _read_allowing(self, text: str) -> AllowRules:
        rule = self._parsed(text, Effect.ALLOW)
        return AllowRules([rule] if isinstance(rule, Rule) else [])

    def _parsed(self, text: str, effect: Effect) -> Rule | Malformed:
        start = self._workspace[0] if self._workspace else Path("/")
        return parse_rule(RuleText(effect, text, Path("if"), 1, LayerKind.FLAG, start))


def _in_doubt(rule: Rule, evidence: Evidence) -> bool:
    if isinstance(rule.specifier, CommandPattern):
        return evidence.reading is not None and not_understood(evidence) is not None
    return isinstance(rule.specifier, PathPattern) and evidence.unresolved is not None
