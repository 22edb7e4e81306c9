"""Rules carry their own examples: `dispatch.ruleTests`, and whether they hold."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.decision import Vote
from mcp_dispatch.policy.explain import Call, NoSuchCall, call_of, judge
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.settings.problems import Problem, Severity, format_value
from mcp_dispatch.settings.settings import RuleTestText


@dataclass(frozen=True, slots=True)
class Failed:
    """An example that does not hold. `by` is the vote that decided otherwise."""

    test: RuleTestText
    reason: str
    by: Vote | None = None

    @property
    def problem(self) -> Problem:
        """As `doctor` reports it."""
        key = "dispatch.ruleTests"
        return Problem(Severity.ERROR, self.test.file, key, self.reason, self.test.line)


def failures(
    tests: Iterable[RuleTestText], policy: Policy, workspace: Workspace
) -> tuple[Failed, ...]:
    """The examples that the rules do not fulfil."""
    return tuple(_failures(tests, policy, workspace))


def _failures(
    tests: Iterable[RuleTestText], policy: Policy, workspace: Workspace
) -> Iterator[Failed]:
    for test in tests:
        try:
            call = call_of(test.call)
            decision = judge(call, policy, workspace).decision
        except NoSuchCall as error:
            yield Failed(test, str(error))
            continue
        if decision.effect is not test.expect:
            expected, got = test.expect.name.lower(), decision.effect.name.lower()
            by = decision.by
            reason = f"{_named(call)}: expected {expected}, got {got}: {by.reason} ({by.origin})"
            yield Failed(test, reason, by)


def _named(call: Call) -> str:
    """The call in a few words."""
    values = [value for value in call.arguments.values() if isinstance(value, str)]
    return f"{call.tool}({format_value(values[0])[1:-1]})" if values else call.tool
