"""The subject of a permission decision, and the decision."""

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
    """A decision and its subject. Paths are resolved once, so that rules, questions and the tool
    refer to the same files."""

    reviewed: ReviewedCall
    subject: Subject
    decision: Decision

    def permit(self, approved: Approved | None = None) -> PermittedCall:
        """`approved` is the answer of a person; None if the rules alone allow the call."""
        judged = frozenset(names[-1] for names in self.subject.resolved_paths.values())
        return PermittedCall(self.reviewed, self.decision, judged, approved)


def decide_call(policy: Policy, reviewed: ReviewedCall, subject: Subject) -> Decision:
    votes, ask = reviewed.review.votes, reviewed.checked.ask
    return policy.evaluate(subject, hook_votes=votes, tool_ask=ask)


def build_subject(checked: CheckedCall, scope: Scope, home: Path) -> Subject:
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
    resolved_paths = _resolve_paths(subject, home)
    reads = [resolved_paths.get(path, ()) for path in subject.read_paths]
    delivered = bool(reads) and all(_is_delivered(names, scope) for names in reads)
    return replace(subject, resolved_paths=resolved_paths, delivered=delivered)


def _resolve_paths(subject: Subject, home: Path) -> dict[str, tuple[Path, ...]]:
    """Return every name of every path of the subject. A path that cannot be resolved is left out:
    the rules deny it."""
    resolved_paths: dict[str, tuple[Path, ...]] = {}
    for path in (*subject.read_paths, *subject.write_paths):
        with suppress(PathResolutionError):
            resolved_paths[path] = resolve_all_names(path, subject.cwd, home)
    return resolved_paths


def _is_delivered(names: tuple[Path, ...], scope: Scope) -> bool:
    """A link to a stored result does not count, nor does a stored result that became a link."""
    return bool(names) and all(scope.is_delivered(str(name)) for name in names)


def _is_read_only(definition: JsonObject) -> bool:
    annotations = definition.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True
