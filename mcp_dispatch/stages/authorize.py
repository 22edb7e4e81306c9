"""ReviewedCall -> PermittedCall: rules, protected paths and mode decide; where they say "ask", a
person does, and no slot is held meanwhile."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mcp_dispatch.admission import Slot
from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.model.calls import (
    Asked,
    CheckedCall,
    PermittedCall,
    Review,
    ReviewedCall,
    Rewrite,
)
from mcp_dispatch.model.circumstances import Circumstances
from mcp_dispatch.model.decision import Decision, Effect, Tier
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject, canonical
from mcp_dispatch.model.outcome import RefusedBy, Suspended
from mcp_dispatch.model.questions import (
    Approved,
    Caller,
    Declined,
    Extent,
    LeftWithClient,
    Offer,
    Question,
)
from mcp_dispatch.model.tools import definition_digest
from mcp_dispatch.policy.paths import Unresolvable, names_of
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.scope import Scope, SessionApproval
from mcp_dispatch.settings.layers import LayerKind
from mcp_dispatch.settings.load import RuleText
from mcp_dispatch.tools.targets import path_changed

_THIS_SESSION = Path("this session")


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
    try:
        return await _authorize(reviewed, bench)
    except Refused as refused:
        if refused.refusal.by is not RefusedBy.PERMISSION:
            raise
        raise await _after_the_hooks_of_denials(refused, reviewed.checked, bench) from refused


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
        await _remember(yes, call.answered.asked.offer, judgement, bench)
        return judgement.permitted()
    question = _question(judgement, bench)
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
    await _remember(yes, question.offer, again, bench)
    return again.permitted()


def _judgement(reviewed: ReviewedCall, bench: Bench) -> Judgement:
    """Of what will run, and of what was asked for before a hook rewrote it."""
    policy = bench.policy().extended(bench.scope.approved_rules(reviewed.checked.tool))
    subject = subject_of(reviewed.checked, bench.scope, policy.home)
    decision = _decision(policy, reviewed, subject)
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
    refused: Refused, checked: CheckedCall, bench: Bench
) -> Refused:
    """The refusal, with what PermissionDenied hooks have to add."""
    retry = await bench.hooks.denied(checked, str(refused), bench.circumstances)
    if not retry:
        return refused
    message = f"{refused} A hook says that the call may be made again."
    return Refused(RefusedBy.PERMISSION, message, refused.refusal.decision)


def _decision(policy: Policy, reviewed: ReviewedCall, subject: Subject) -> Decision:
    votes, ask = reviewed.review.votes, reviewed.checked.ask
    return policy.judge(subject, hook_votes=votes, tool_ask=ask)


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


def _question(judgement: Judgement, bench: Bench) -> Question:
    policy, checked = bench.policy(), judgement.reviewed.checked
    allows = partial(_allows, judgement, bench)
    rules = policy.lasting(judgement.subject, allows)
    line = policy.suggestion(judgement.subject)
    return Question(
        checked.tool.rule_name,
        checked.arguments,
        judgement.decision,
        line if allows(policy.suggested(judgement.subject)) else None,
        Offer(rules, bench.approver.always.file if rules else None),
        _key(judgement, bench.scope),
        bench.scope.id,
        checked.call.enveloped,
    )


def _allows(judgement: Judgement, bench: Bench, rules: tuple[str, ...]) -> bool:
    """Whether the call would run unasked with these rules added to what holds now."""
    reviewed = judgement.reviewed
    held = bench.scope.approved_rules(reviewed.checked.tool)
    policy = bench.policy().extended((*held, *_as_rules(rules, bench.scope)))
    return _decision(policy, reviewed, judgement.subject).effect is Effect.ALLOW


def _as_rules(rules: tuple[str, ...], scope: Scope) -> tuple[RuleText, ...]:
    anchor = scope.cwd or Path("/")
    return tuple(
        RuleText(Effect.ALLOW, text, _THIS_SESSION, 0, LayerKind.OWN, anchor) for text in rules
    )


def _key(judgement: Judgement, scope: Scope) -> str:
    """An answer is for this call alone: its name, arguments, files, and the reason to ask."""
    call, checked = judgement.reviewed.checked.call, judgement.reviewed.checked
    by, ends = judgement.decision.by, judgement.subject.ends
    files: Json = {path: [str(name) for name in names] for path, names in ends.items()}
    asked: list[Json] = [by.tier.value, by.reason, str(by.origin)]
    named: list[Json] = [scope.id, call.name, checked.tool.rule_name]
    return canonical([*named, call.arguments, checked.arguments, files, *asked])


async def _ask(
    question: Question, judgement: Judgement, bench: Bench
) -> Approved | Declined | LeftWithClient:
    uncovered = bench.policy().uncovered_by_client(judgement.subject, judgement.decision)
    if uncovered is None and question.enveloped:
        uncovered = "a call through call_tool"

    async def remember_later(yes: Approved) -> None:
        await _remember(yes, question.offer, judgement, bench)

    return await bench.approver.ask(
        question, bench.caller, uncovered=uncovered, remember=remember_later
    )


async def _remember(yes: Approved, offer: Offer, judgement: Judgement, bench: Bench) -> None:
    """Sets a lasting yes down, if what was offered still covers the call by itself."""
    if yes.extent is Extent.ONCE or not _allows(judgement, bench, offer.rules):
        return
    tool = judgement.reviewed.checked.tool
    digest = None if tool.server is None else definition_digest(tool.definition)
    if yes.extent is Extent.SESSION:
        rules = _as_rules(offer.rules, bench.scope)
        bench.scope.approve(SessionApproval(tool.rule_name, rules, digest))
    elif offer.file is not None:
        definitions = {} if digest is None else {tool.rule_name: digest}
        await bench.approver.always.keep(offer.file, offer.rules, definitions)


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
