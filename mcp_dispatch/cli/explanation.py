"""How `explain` parses a call, evaluates it and formats the decision."""

import json
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.app.settings_options import SettingsOptions, add_directories, build_policy
from mcp_dispatch.cli.text import wrap_text
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.decision import Decision, Tier, Vote
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.policy.explain import (
    CallSpec,
    ExplainedDecision,
    InvalidCallSpec,
    evaluate_call,
    parse_call_spec,
    suggest_allow_line,
)
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.rules.examples import RuleTestFailure, run_rule_tests
from mcp_dispatch.settings.settings import Settings

_TIER_LABELS = {
    Tier.DENY: "deny",
    Tier.HARD_ASK: "ask",
    Tier.ALLOW: "allow",
    Tier.TOOL_ASK: "the tool's own question",
    Tier.UNDECIDED: "undecided",
}


class InvalidCallError(Exception):
    """The input describes no call; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class RuleExplainer:
    """The rules that a server with the same flags would have."""

    policy: Policy
    workspace: Workspace
    settings: Settings

    @property
    def test_count(self) -> int:
        return len(self.settings.rules.tests)

    def find_failures(self) -> tuple[RuleTestFailure, ...]:
        return run_rule_tests(self.settings.rules.tests, self.policy, self.workspace)

    def parse_call(self, tool: str, arguments: str | None) -> CallSpec:
        """Parse the call that the command line describes."""
        try:
            if arguments is None:
                return parse_call_spec(tool)
            return parse_call_spec({"tool": tool, "input": _parse_json(arguments)})
        except InvalidCallSpec as error:
            raise InvalidCallError(str(error)) from error

    def judge(self, call: CallSpec) -> ExplainedDecision:
        try:
            return evaluate_call(call, self.policy, self.workspace)
        except InvalidCallSpec as error:
            raise InvalidCallError(str(error)) from error

    def suggest_allow_line(self, call: CallSpec) -> str | None:
        return suggest_allow_line(call, self.policy, self.workspace)


def load_explainer(options: SettingsOptions) -> RuleExplainer:
    """Read the files that a server would read, and create none. Raise `StartError`."""
    chosen = Workspace.choose(options.workspace, (), Path.cwd())
    settings = options.create_settings_reader().read(chosen.root)
    workspace, _ = add_directories(chosen, settings)
    policy = build_policy(options, settings, workspace, options.state_path)
    return RuleExplainer(policy, workspace, settings)


def answer_line(line: bytes, explainer: RuleExplainer) -> JsonObject:
    """Answer one line of a batch, with `error` if the line is invalid."""
    answer: JsonObject = {"id": None}
    try:
        entry = _parse_json(line.decode("utf-8-sig"))
        answer = {"id": entry.get("id")} if isinstance(entry, dict) else answer
        if not isinstance(entry, dict):
            raise InvalidCallError('expected {"id": …, "tool": …, "input": {…}}')
        verdict = explainer.judge(parse_call_spec(entry))
    except UnicodeDecodeError:
        return {**answer, "error": "the line is not UTF-8"}
    except (InvalidCallError, InvalidCallSpec) as error:
        return {**answer, "error": str(error)}
    return {**answer, **to_verdict_json(verdict)}


def _parse_json(text: str) -> Json:
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except RecursionError as error:
        raise InvalidCallError("the JSON is nested too deeply") from error
    except ValueError as error:
        raise InvalidCallError(f"not JSON: {error}") from error


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def to_verdict_json(verdict: ExplainedDecision) -> JsonObject:
    decision = verdict.decision
    return {
        "decision": decision.effect.name.lower(),
        "by": str(decision.by.origin),
        "reason": decision.by.reason,
        "votes": [_to_vote_json(vote) for vote in decision.votes],
        "read_only": verdict.read_only,
        "sharing": verdict.sharing.value,
    }


def _to_vote_json(vote: Vote) -> JsonObject:
    return {
        "effect": vote.effect.name.lower(),
        "tier": _TIER_LABELS[vote.tier],
        "reason": vote.reason,
        "source": vote.origin.source,
        "line": vote.origin.line,
        "rule": vote.origin.rule,
    }


def to_failure_json(failed: RuleTestFailure) -> JsonObject:
    test, by = failed.test, failed.deciding_vote
    return {
        "file": str(test.file),
        "line": test.line,
        "call": test.call,
        "expected": test.expect.name.lower(),
        "reason": failed.reason,
        "by": None if by is None else _to_vote_json(by),
    }


def format_verdict(verdict: ExplainedDecision, allow_line: str | None = None) -> str:
    """Format the decision, then every vote in the order of precedence."""
    decision = verdict.decision
    lines = [wrap_text(f"{decision.effect.name.lower()}: ", decision.by.reason)]
    lines += [wrap_text("  ", text) for text in _format_origin(decision.by)]
    effect = "it changes nothing" if verdict.read_only else "it may change something"
    lines.append(f"  {effect}, and runs {_describe_sharing(verdict)}")
    lines += ["", "Votes, those that are heard first at the top:"]
    for vote in _sort_votes(decision):
        lines.append(wrap_text(f"  {vote.effect.name.lower():<6}", vote.reason))
        lines += [wrap_text(" " * 8, text) for text in _format_origin(vote)]
    if allow_line is not None and decision.by.tier is Tier.UNDECIDED:
        lines += ["", wrap_text("To allow it: ", allow_line)]
    return "\n".join(lines)


def _describe_sharing(verdict: ExplainedDecision) -> str:
    return "beside others" if verdict.sharing.value == "shared" else "alone"


def _sort_votes(decision: Decision) -> list[Vote]:
    return sorted(decision.votes, key=lambda vote: (vote.tier, -vote.effect))


def _format_origin(vote: Vote) -> list[str]:
    origin = vote.origin
    location = origin.source if origin.line is None else f"{origin.source}:{origin.line}"
    return [location] if origin.rule is None else [origin.rule, location]
