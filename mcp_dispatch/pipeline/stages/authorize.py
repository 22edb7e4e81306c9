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
    AskDeferred,
    Caller,
    Declined,
    Question,
)
from mcp_dispatch.model.calls import (
    AskedContext,
    CheckedCall,
    PermittedCall,
    PreHookResult,
    ReviewedCall,
    Rewrite,
)
from mcp_dispatch.model.decision import Effect, Tier
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.model.outcome import RefusedBy, Suspended
from mcp_dispatch.pipeline.ask import ApprovalPrompt
from mcp_dispatch.pipeline.judge import PolicyResult, build_subject, decide_call
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.results.markers import build_stop_notes
from mcp_dispatch.tools.files.target import build_path_change_refusal


@dataclass(frozen=True, slots=True)
class AuthorizeEnv:
    """Who sits in judgement over one call."""

    get_policy: Callable[[], Policy]
    """As it stands now: rules may change while a person thinks."""

    approver: Approver
    scope: Scope
    caller: Caller
    slot: Slot
    check_again: Callable[[ReviewedCall], Awaitable[ReviewedCall]]
    """Validates and checks once more, after a person took their time."""

    hooks: Hooks
    hook_context: HookContext
    check_rewrite: Callable[[CheckedCall, Rewrite], Awaitable[CheckedCall]]
    """Validates and checks what a hook made of the arguments, and queues as what the call is now."""

    @property
    def approval_prompt(self) -> ApprovalPrompt:
        return ApprovalPrompt(self.get_policy, self.scope, self.approver.rule_writer)


async def authorize(reviewed: ReviewedCall, env: AuthorizeEnv) -> PermittedCall | Suspended:
    try:
        return await _authorize(reviewed, env)
    except Refused as refused:
        if refused.refusal.by is not RefusedBy.PERMISSION:
            raise
        raise await _run_denied_hooks(refused, reviewed, env) from refused


async def _authorize(reviewed: ReviewedCall, env: AuthorizeEnv) -> PermittedCall | Suspended:
    judgement = _evaluate(reviewed, env)
    call = reviewed.checked.call
    if call.approval_answer is None and call.call_retry is None and _needs_approval(judgement, env):
        judgement = await _run_permission_hooks(judgement, env)
        reviewed = judgement.reviewed
    _refuse_denied(judgement, env)
    if judgement.decision.effect is Effect.ALLOW:
        return judgement.permit()
    if call.call_retry is not None:
        # It was permitted when it began; only a denial ends it now.
        return judgement.permit()
    if call.approval_answer is not None:
        yes = _require_approval(env.approver.read_answer(call.approval_answer), judgement)
        _refuse_other_files(call.approval_answer.context.resolved_paths, judgement)
        await env.approval_prompt.remember(yes, call.approval_answer.context.options, judgement)
        return judgement.permit(yes)
    question = env.approval_prompt.build_question(judgement)
    env.slot.release()
    reply = await _ask(question, judgement, env)
    if isinstance(reply, AskDeferred):
        asked = AskedContext(reviewed.review, judgement.subject.resolved_paths, question.options)
        return Suspended(reply.input_requests, env.scope.pending_questions.add(call, asked))
    yes = _require_approval(reply, judgement)
    await env.slot.acquire()
    again = _evaluate(await env.check_again(reviewed), env)
    _refuse_denied(again, env)
    _refuse_other_files(judgement.subject.resolved_paths, again)
    await env.approval_prompt.remember(yes, question.options, again)
    return again.permit(yes)


def _evaluate(reviewed: ReviewedCall, env: AuthorizeEnv) -> PolicyResult:
    """Of what will run, and of what was asked for before a hook rewrote it."""
    policy = env.get_policy().extend(env.scope.list_approved_rules(reviewed.checked.tool))
    subject = build_subject(reviewed.checked, env.scope, policy.home)
    decision = decide_call(policy, reviewed, subject)
    if decision.effect is not Effect.DENY and reviewed.original is not reviewed.checked:
        first = build_subject(reviewed.original, env.scope, policy.home)
        votes, ask = reviewed.review.votes, reviewed.original.ask
        original = policy.evaluate(first, hook_votes=votes, tool_ask=ask)
        decision = original if original.effect is Effect.DENY else decision
    return PolicyResult(reviewed, subject, decision)


def _refuse_denied(result: PolicyResult, env: AuthorizeEnv) -> None:
    if result.decision.effect is Effect.DENY:
        message = _format_denial(result, env.get_policy())
        raise Refused(RefusedBy.PERMISSION, message, result.decision)


def _needs_approval(result: PolicyResult, env: AuthorizeEnv) -> bool:
    """Whether a question is what is left; one that is denied unasked is put to hooks all the same."""
    decision = result.decision
    if decision.effect is Effect.DENY:
        return decision.by.tier is not Tier.DENY and env.get_policy().hooks_answer_before_deny
    return decision.effect is Effect.ASK


async def _run_permission_hooks(result: PolicyResult, env: AuthorizeEnv) -> PolicyResult:
    """What PermissionRequest hooks make of the question.

    Their allow is heard where every hook's is: it passes no deny and no question that was asked
    for. What they rewrite is judged like what any hook rewrites.
    """
    reviewed = result.reviewed
    said = await env.hooks.run_permission_request(reviewed.checked, env.hook_context)
    if said == PreHookResult():
        return result
    checked = reviewed.checked
    if said.rewrite is not None:
        checked = await env.check_rewrite(checked, said.rewrite)
    review = reviewed.review.merge(said)
    return _evaluate(replace(reviewed, checked=checked, review=review), env)


async def _run_denied_hooks(refused: Refused, reviewed: ReviewedCall, env: AuthorizeEnv) -> Refused:
    """The refusal, with what hooks have to say beside it."""
    retry = await env.hooks.run_permission_denied(reviewed.checked, str(refused), env.hook_context)
    review = reviewed.review
    words = ["A hook says that the call may be made again."] if retry else []
    words += [*review.contexts, *build_stop_notes(review.stopped)]
    if not words:
        return refused
    message = "\n".join([str(refused), *words])
    return Refused(RefusedBy.PERMISSION, message, refused.refusal.decision)


async def _ask(
    question: Question, result: PolicyResult, env: AuthorizeEnv
) -> Approved | Declined | AskDeferred:
    uncovered = env.get_policy().explain_insufficient_confirmation(result.subject, result.decision)
    if uncovered is None and question.via_call_tool:
        uncovered = "a call through call_tool"

    async def remember_later(yes: Approved) -> None:
        await env.approval_prompt.remember(yes, question.options, result)

    return await env.approver.ask(
        question, env.caller, not_covered_by_client=uncovered, remember=remember_later
    )


def _require_approval(reply: Approved | Declined, result: PolicyResult) -> Approved:
    if isinstance(reply, Approved):
        return reply
    decision, name = result.decision, result.reviewed.checked.tool.rule_name
    raise Refused(
        RefusedBy.PERMISSION,
        f"Permission to use {name} was not given: {decision.by.reason} "
        f"({decision.by.origin}); {reply.reason}.",
        decision,
    )


def _refuse_other_files(
    approved_paths: Mapping[str, tuple[Path, ...]], result: PolicyResult
) -> None:
    """A yes was meant for the files that the paths led to when the question was put."""
    if approved_paths != result.subject.resolved_paths:
        raise build_path_change_refusal(", ".join(result.subject.resolved_paths or approved_paths))


def _format_denial(result: PolicyResult, policy: Policy) -> str:
    decision, name = result.decision, result.reviewed.checked.tool.rule_name
    text = f"Permission to use {name} has been denied: {decision.by.reason} ({decision.by.origin})."
    if not decision.undecided:
        return text
    line = policy.suggest_allow_line(result.subject)
    return f'{text} To allow it, add to "permissions" in settings.json: {line}'
