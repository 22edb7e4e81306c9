"""ReviewedCall -> PermittedCall: rules, protected paths and mode decide; where they say "ask", a
person does, and no slot is held meanwhile."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.concurrency.admission import Slot
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.model.approval import (
    Approved,
    Caller,
    Declined,
    LeftWithClient,
    Question,
)
from mcp_dispatch.model.calls import (
    Asked,
    CheckedCall,
    PermittedCall,
    Review,
    ReviewedCall,
    Rewrite,
)
from mcp_dispatch.model.decision import Effect, Tier
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.hook_context import Circumstances
from mcp_dispatch.model.outcome import RefusedBy, Suspended
from mcp_dispatch.pipeline.ask import Questioning
from mcp_dispatch.pipeline.judge import Judgement, decision_on, subject_of
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.results.markers import stop_notes
from mcp_dispatch.tools.files.target import path_changed


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

    hooks: Hooks
    circumstances: Circumstances
    rewrite: Callable[[CheckedCall, Rewrite], Awaitable[CheckedCall]]
    """Validates and checks what a hook made of the arguments, and queues as what the call is now."""

    @property
    def questioning(self) -> Questioning:
        return Questioning(self.policy, self.scope, self.approver.always)


async def authorize(reviewed: ReviewedCall, bench: Bench) -> PermittedCall | Suspended:
    try:
        return await _authorize(reviewed, bench)
    except Refused as refused:
        if refused.refusal.by is not RefusedBy.PERMISSION:
            raise
        raise await _after_the_hooks_of_denials(refused, reviewed, bench) from refused


async def _authorize(reviewed: ReviewedCall, bench: Bench) -> PermittedCall | Suspended:
    judgement = _judgement(reviewed, bench)
    call = reviewed.checked.call
    if call.answered is None and call.resumed is None and _would_ask(judgement, bench):
        judgement = await _heard(judgement, bench)
        reviewed = judgement.reviewed
    _refuse_denied(judgement, bench)
    if judgement.decision.effect is Effect.ALLOW:
        return judgement.permitted()
    if call.resumed is not None:
        # It was permitted when it began; only a denial ends it now.
        return judgement.permitted()
    if call.answered is not None:
        yes = _insist(bench.approver.read(call.answered), judgement)
        _refuse_other_files(call.answered.asked.ends, judgement)
        await bench.questioning.remember(yes, call.answered.asked.offer, judgement)
        return judgement.permitted(yes)
    question = bench.questioning.question(judgement)
    bench.slot.give_back()
    reply = await _ask(question, judgement, bench)
    if isinstance(reply, LeftWithClient):
        asked = Asked(reviewed.review, judgement.subject.ends, question.offer)
        return Suspended(reply.input_requests, bench.scope.asks.park(call, asked))
    yes = _insist(reply, judgement)
    await bench.slot.take()
    again = _judgement(await bench.repeat(reviewed), bench)
    _refuse_denied(again, bench)
    _refuse_other_files(judgement.subject.ends, again)
    await bench.questioning.remember(yes, question.offer, again)
    return again.permitted(yes)


def _judgement(reviewed: ReviewedCall, bench: Bench) -> Judgement:
    """Of what will run, and of what was asked for before a hook rewrote it."""
    policy = bench.policy().extended(bench.scope.approved_rules(reviewed.checked.tool))
    subject = subject_of(reviewed.checked, bench.scope, policy.home)
    decision = decision_on(policy, reviewed, subject)
    if decision.effect is not Effect.DENY and reviewed.original is not reviewed.checked:
        first = subject_of(reviewed.original, bench.scope, policy.home)
        votes, ask = reviewed.review.votes, reviewed.original.ask
        original = policy.judge(first, hook_votes=votes, tool_ask=ask)
        decision = original if original.effect is Effect.DENY else decision
    return Judgement(reviewed, subject, decision)


def _refuse_denied(judgement: Judgement, bench: Bench) -> None:
    if judgement.decision.effect is Effect.DENY:
        message = _denied(judgement, bench.policy())
        raise Refused(RefusedBy.PERMISSION, message, judgement.decision)


def _would_ask(judgement: Judgement, bench: Bench) -> bool:
    """Whether a question is what is left; one that is denied unasked is put to hooks all the same."""
    decision = judgement.decision
    if decision.effect is Effect.DENY:
        return decision.by.tier is not Tier.DENY and bench.policy().hooks_before_silence
    return decision.effect is Effect.ASK


async def _heard(judgement: Judgement, bench: Bench) -> Judgement:
    """What PermissionRequest hooks make of the question.

    Their allow is heard where every hook's is: it passes no deny and no question that was asked
    for. What they rewrite is judged like what any hook rewrites.
    """
    reviewed = judgement.reviewed
    said = await bench.hooks.requested(reviewed.checked, bench.circumstances)
    if said == Review():
        return judgement
    checked = reviewed.checked
    if said.rewrite is not None:
        checked = await bench.rewrite(checked, said.rewrite)
    review = reviewed.review.followed_by(said)
    return _judgement(replace(reviewed, checked=checked, review=review), bench)


async def _after_the_hooks_of_denials(
    refused: Refused, reviewed: ReviewedCall, bench: Bench
) -> Refused:
    """The refusal, with what hooks have to say beside it."""
    retry = await bench.hooks.denied(reviewed.checked, str(refused), bench.circumstances)
    review = reviewed.review
    words = ["A hook says that the call may be made again."] if retry else []
    words += [*review.contexts, *stop_notes(review.stopped)]
    if not words:
        return refused
    message = "\n".join([str(refused), *words])
    return Refused(RefusedBy.PERMISSION, message, refused.refusal.decision)


async def _ask(
    question: Question, judgement: Judgement, bench: Bench
) -> Approved | Declined | LeftWithClient:
    uncovered = bench.policy().uncovered_by_client(judgement.subject, judgement.decision)
    if uncovered is None and question.enveloped:
        uncovered = "a call through call_tool"

    async def remember_later(yes: Approved) -> None:
        await bench.questioning.remember(yes, question.offer, judgement)

    return await bench.approver.ask(
        question, bench.caller, uncovered=uncovered, remember=remember_later
    )


def _insist(reply: Approved | Declined, judgement: Judgement) -> Approved:
    if isinstance(reply, Approved):
        return reply
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
