"""Runs the rule tests of `dispatch.ruleTests`: example calls with their expected effect."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.decision import Vote
from mcp_dispatch.policy.explain import CallSpec, InvalidCallSpec, evaluate_call, parse_call_spec
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.settings.problems import SettingsProblem, Severity, format_value
from mcp_dispatch.settings.settings import RuleTestText


@dataclass(frozen=True, slots=True)
class RuleTestFailure:
    """A rule test that failed. `deciding_vote` led to another effect than the expected one."""

    test: RuleTestText
    reason: str
    deciding_vote: Vote | None = None

    @property
    def problem(self) -> SettingsProblem:
        """The failure as `doctor` reports it."""
        key = "dispatch.ruleTests"
        return SettingsProblem(Severity.ERROR, self.test.file, key, self.reason, self.test.line)


def run_rule_tests(
    tests: Iterable[RuleTestText], policy: Policy, workspace: Workspace
) -> tuple[RuleTestFailure, ...]:
    """Return the tests that failed."""
    return tuple(_iter_failures(tests, policy, workspace))


def _iter_failures(
    tests: Iterable[RuleTestText], policy: Policy, workspace: Workspace
) -> Iterator[RuleTestFailure]:
    for test in tests:
        try:
            call = parse_call_spec(test.call)
            decision = evaluate_call(call, policy, workspace).decision
        except InvalidCallSpec as error:
            yield RuleTestFailure(test, str(error))
            continue
        if decision.effect is not test.expect:
            expected, got = test.expect.name.lower(), decision.effect.name.lower()
            by = decision.by
            reason = (
                f"{_format_call(call)}: expected {expected}, got {got}: {by.reason} ({by.origin})"
            )
            yield RuleTestFailure(test, reason, by)


def _format_call(call: CallSpec) -> str:
    """Return a short description of the call."""
    values = [value for value in call.arguments.values() if isinstance(value, str)]
    return f"{call.tool}({format_value(values[0])[1:-1]})" if values else call.tool
