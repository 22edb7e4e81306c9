"""ReviewedCall -> PermittedCall: rules, protected paths and mode decide; where they say "ask", a
person does, and no slot is held meanwhile."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from mcp_dispatch.admission import Slot
from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.model.calls import Asked, CheckedCall, PermittedCall, ReviewedCall
from mcp_dispatch.model.decision import Decision, Effect
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import RefusedBy, Suspended
from mcp_dispatch.model.questions import Approved, Caller, Declined, LeftWithClient, Question
from mcp_dispatch.policy.paths import Unresolvable, names_of
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.scope import Scope
from mcp_dispatch.tools.targets import path_changed


@dataclass(frozen=True, slots=True)
class Bench:
    """Who sits in judgement over one call."""

    policy: Callable[[], Policy]
    """As it stands now: rules may change while a person thinks."""

    approver: Approver
    scope: Scope
    caller: Caller
    slot: Slot
    repeat: Callable[[ReviewedCall], Awaitable[ReviewedCall]]
    """Validates and checks once more, after a person took their time."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision and what it is about. Paths were followed once: everyone judges the same files."""

    reviewed: ReviewedCall
    subject: Subject
    decision: Decision

    def permitted(self) -> PermittedCall:
        judged = frozenset(names[-1] for names in self.subject.ends.values())
        return PermittedCall(self.reviewed, self.decision, judged)


async def authorize(reviewed: ReviewedCall, bench: Bench) -> PermittedCall | Suspended:
    judgement = _judge(reviewed, bench)
    if judgement.decision.effect is Effect.ALLOW:
        return judgement.permitted()
    call = reviewed.checked.call
    if call.answered is not None:
        _insist(bench.approver.read(call.answered), judgement)
        _refuse_other_files(call.answered.asked.ends, judgement)
        return judgement.permitted()
    bench.slot.give_back()
    reply = await _ask(judgement, bench)
    if isinstance(reply, LeftWithClient):
        asked = Asked(reviewed.review, judgement.subject.ends)
        return Suspended(reply.input_requests, bench.scope.asks.park(call, asked))
    _insist(reply, judgement)
    await bench.slot.take()
    again = _judge(await bench.repeat(reviewed), bench)
    _refuse_other_files(judgement.subject.ends, again)
    return again.permitted()


def _judge(reviewed: ReviewedCall, bench: Bench) -> Judgement:
    """Raises for a denial: of what will run, or of what was asked for before a hook rewrote it."""
    policy = bench.policy()
    subject = subject_of(reviewed.checked, bench.scope, policy.home)
    decision = policy.judge(
        subject, hook_votes=reviewed.review.votes, tool_ask=reviewed.checked.ask
    )
    if decision.effect is not Effect.DENY and reviewed.original is not reviewed.checked:
        original = policy.judge(subject_of(reviewed.original, bench.scope, policy.home))
        decision = original if original.effect is Effect.DENY else decision
    judgement = Judgement(reviewed, subject, decision)
    if decision.effect is Effect.DENY:
        raise Refused(RefusedBy.PERMISSION, _denied(judgement, policy), decision)
    return judgement


def subject_of(checked: CheckedCall, scope: Scope, home: Path) -> Subject:
    """What the decision is about."""
    tool = checked.tool
    subject = Subject(
        rule_name=tool.rule_name,
        exposed_name=tool.name,
        server=tool.server,
        arguments=checked.arguments,
        literal_arguments=checked.valid.arguments,
        cwd=scope.cwd,
        read_only=_says_read_only(tool.definition),
    )
    ends = _ends(subject, home)
    reads = [ends.get(path, ()) for path in subject.read_paths]
    delivered = bool(reads) and all(_delivered(names, scope) for names in reads)
    return replace(subject, ends=ends, delivered=delivered)


def _ends(subject: Subject, home: Path) -> dict[str, tuple[Path, ...]]:
    """Every name of every path in it. One that cannot be followed is missing: rules deny it."""
    ends: dict[str, tuple[Path, ...]] = {}
    for path in (*subject.read_paths, *subject.write_paths):
        with suppress(Unresolvable):
            ends[path] = names_of(path, subject.cwd, home)
    return ends


def _delivered(names: tuple[Path, ...], scope: Scope) -> bool:
    """A link to a kept result is not one, and neither is a kept result that became a link."""
    return bool(names) and all(scope.delivered(str(name)) for name in names)


def _says_read_only(definition: JsonObject) -> bool:
    annotations = definition.get("annotations")
    return isinstance(annotations, dict) and annotations.get("readOnlyHint") is True


async def _ask(judgement: Judgement, bench: Bench) -> Approved | Declined | LeftWithClient:
    policy, checked = bench.policy(), judgement.reviewed.checked
    question = Question(
        checked.tool.rule_name,
        checked.arguments,
        judgement.decision,
        policy.suggestion(judgement.subject),
    )
    uncovered = policy.uncovered_by_client(judgement.subject, judgement.decision)
    return await bench.approver.ask(question, bench.caller, uncovered=uncovered)


def _insist(reply: Approved | Declined, judgement: Judgement) -> None:
    if isinstance(reply, Declined):
        decision, name = judgement.decision, judgement.reviewed.checked.tool.rule_name
        raise Refused(
            RefusedBy.PERMISSION,
            f"Permission to use {name} was not given: {decision.by.reason} "
            f"({decision.by.origin}); {reply.reason}.",
            decision,
        )


def _refuse_other_files(asked: Mapping[str, tuple[Path, ...]], now: Judgement) -> None:
    """A yes was meant for the files that the paths led to when the question was put."""
    if asked != now.subject.ends:
        raise path_changed(", ".join(now.subject.ends or asked))


def _denied(judgement: Judgement, policy: Policy) -> str:
    decision, name = judgement.decision, judgement.reviewed.checked.tool.rule_name
    text = f"Permission to use {name} has been denied: {decision.by.reason} ({decision.by.origin})."
    if not decision.soft:
        return text
    line = policy.suggestion(judgement.subject)
    return f'{text} To allow it, add to "permissions" in settings.json: {line}'
