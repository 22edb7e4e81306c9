"""One call before the rules: what the decision is about, and the decision."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mcp_dispatch.fs.resolve import PathResolutionError, resolve_all_names
from mcp_dispatch.model.approval import Approved
from mcp_dispatch.model.calls import CheckedCall, PermittedCall, ReviewedCall
from mcp_dispatch.model.decision import Decision
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """A decision and what it is about. Paths were followed once: everyone judges the same files."""

    reviewed: ReviewedCall
    subject: Subject
    decision: Decision

    def permit(self, approved: Approved | None = None) -> PermittedCall:
        """By the rules alone, or by a person who was asked."""
        judged = frozenset(names[-1] for names in self.subject.resolved_paths.values())
        return PermittedCall(self.reviewed, self.decision, judged, approved)


def decide_call(policy: Policy, reviewed: ReviewedCall, subject: Subject) -> Decision:
    votes, ask = reviewed.review.votes, reviewed.checked.ask
    return policy.evaluate(subject, hook_votes=votes, tool_ask=ask)


def build_subject(checked: CheckedCall, scope: Scope, home: Path) -> Subject:
    """What the decision is about."""
    tool = checked.tool
    subject = Subject(
        rule_name=tool.rule_name,
        exposed_name=tool.name,
        server=tool.server,
        arguments=checked.arguments,
        literal_arguments=checked.valid.arguments,
        cwd=scope.cwd,
        read_only=_is_read_only(tool.definition),
    )
    ends = _resolve_paths(subject, home)
    reads = [ends.get(path, ()) for path in subject.read_paths]
    delivered = bool(reads) and all(_is_delivered(names, scope) for names in reads)
    return replace(subject, resolved_paths=ends, delivered=delivered)


def _resolve_paths(subject: Subject, home: Path) -> dict[str, tuple[Path, ...]]:
    """Every name of every path in it. One that cannot be followed is missing: rules deny it."""
    ends: dict[str, tuple[Path, ...]] = {}
    for path in (*subject.read_paths, *subject.write_paths):
        with suppress(PathResolutionError):
            ends[path] = resolve_all_names(path, subject.cwd, home)
    return ends


def _is_delivered(names: tuple[Path, ...], scope: Scope) -> bool:
    """A link to a kept result is not one, and neither is a kept result that became a link."""
    return bool(names) and all(scope.is_delivered(str(name)) for name in names)


def _is_read_only(definition: JsonObject) -> bool:
    annotations = definition.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
