"""ReviewedCall -> PermittedCall: rules, protected paths and the mode decide. If they decide to
ask, a person does, and the call holds no slot meanwhile."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mcp_dispatch.model.approval import Approved, AskDeferred, Declined, Question
from mcp_dispatch.model.calls import AskedContext, PermittedCall, PreHookResult, ReviewedCall
from mcp_dispatch.model.decision import Effect, Tier
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.outcome import RefusedBy, Suspended
from mcp_dispatch.pipeline.ask import build_question, remember_approval
from mcp_dispatch.pipeline.call_env import CallEnv
from mcp_dispatch.pipeline.judge import PolicyResult, build_subject, decide_call
from mcp_dispatch.pipeline.pending import identify_call
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.results.markers import build_stop_notes
from mcp_dispatch.tools.files.target import build_path_change_refusal


async def authorize(reviewed: ReviewedCall, env: CallEnv) -> PermittedCall | Suspended:
    """Raise `Refused` (PERMISSION) if the call is denied; PermissionDenied hooks run first."""
    try:
        return await _authorize(reviewed, env)
    except Refused as refused:
        if refused.refusal.by is not RefusedBy.PERMISSION:
            raise
        raise await _run_denied_hooks(refused, reviewed, env) from refused


async def _authorize(reviewed: ReviewedCall, env: CallEnv) -> PermittedCall | Suspended:
    result = _evaluate(reviewed, env)
    call = env.call
    is_first_attempt = call.approval_answer is None and call.call_retry is None
    if is_first_attempt and _needs_approval(result, env):
        result = await _run_permission_hooks(result, env)
    _refuse_denied(result, env)
    # A retried call was permitted when it began; only a denial ends it now.
    if result.decision.effect is Effect.ALLOW or call.call_retry is not None:
        return result.permit()
    if call.approval_answer is not None:
        context = call.approval_answer.context
        answer = env.services.approver.read_answer(call.approval_answer)
        approved = _require_approval(answer, result)
        _refuse_other_files(context.resolved_paths, result)
        await remember_approval(approved, context.options, result, env)
        return result.permit(approved)
    return await _authorize_by_person(result, env)


async def _authorize_by_person(result: PolicyResult, env: CallEnv) -> PermittedCall | Suspended:
    """Release the slot and ask. The call is checked and evaluated again after the answer."""
    reviewed, resolved_paths = result.reviewed, result.subject.resolved_paths
    question = build_question(result, env)
    env.slot.release()
    reply = await _ask(question, result, env)
    if isinstance(reply, AskDeferred):
        context = AskedContext(reviewed.review, resolved_paths, question.options)
        state = env.scope.pending_questions.add(identify_call(env.call), context)
        return Suspended(reply.input_requests, state)
    approved = _require_approval(reply, result)
    await env.slot.acquire()
    checked = await env.recheck(reviewed.checked, reviewed.checked.valid.arguments)
    result = _evaluate(replace(reviewed, checked=checked), env)
    _refuse_denied(result, env)
    _refuse_other_files(resolved_paths, result)
    await remember_approval(approved, question.options, result, env)
    return result.permit(approved)


def _evaluate(reviewed: ReviewedCall, env: CallEnv) -> PolicyResult:
    """Evaluate the call as it will run. A rule that denies the call as it was before a hook rewrote
    it still denies it."""
    policy = env.policy.extend(env.scope.list_approved_rules(reviewed.checked.tool))
    subject = build_subject(reviewed.checked, env.scope, policy.home)
    decision = decide_call(policy, reviewed, subject)
    if decision.effect is not Effect.DENY and reviewed.original is not reviewed.checked:
        original_subject = build_subject(reviewed.original, env.scope, policy.home)
        votes, ask = reviewed.review.votes, reviewed.original.ask
        original = policy.evaluate(original_subject, hook_votes=votes, tool_ask=ask)
        decision = original if original.effect is Effect.DENY else decision
    return PolicyResult(reviewed, subject, decision)


def _refuse_denied(result: PolicyResult, env: CallEnv) -> None:
    if result.decision.effect is Effect.DENY:
        message = _format_denial(result, env.policy)
        raise Refused(RefusedBy.PERMISSION, message, result.decision)


def _needs_approval(result: PolicyResult, env: CallEnv) -> bool:
    """Whether PermissionRequest hooks run: for a question, and for a denial that takes the place of
    a question if the policy lets hooks answer first."""
    decision = result.decision
    if decision.effect is Effect.DENY:
        return decision.by.tier is not Tier.DENY and env.policy.hooks_answer_before_deny
    return decision.effect is Effect.ASK


async def _run_permission_hooks(result: PolicyResult, env: CallEnv) -> PolicyResult:
    """Evaluate the call again with the votes and the rewrite of PermissionRequest hooks.

    Their allow has the weight of any hook's: it overrides no deny and no ask rule. Arguments that
    they rewrite are checked like those of any hook.
    """
    reviewed = result.reviewed
    requested = await env.hooks.run_permission_request(reviewed.checked, env.hook_context)
    if requested == PreHookResult():
        return result
    checked = reviewed.checked
    if requested.rewrite is not None:
        checked = await env.recheck_rewrite(checked, requested.rewrite)
    review = reviewed.review.merge(requested)
    return _evaluate(replace(reviewed, checked=checked, review=review), env)


async def _run_denied_hooks(refused: Refused, reviewed: ReviewedCall, env: CallEnv) -> Refused:
    """Return the refusal, followed by what hooks add to it."""
    retry = await env.hooks.run_permission_denied(reviewed.checked, str(refused), env.hook_context)
    review = reviewed.review
    notes = ["A hook says that the call may be made again."] if retry else []
    notes += [*review.contexts, *build_stop_notes(review.stopped)]
    if not notes:
        return refused
    message = "\n".join([str(refused), *notes])
    return Refused(RefusedBy.PERMISSION, message, refused.refusal.decision)


async def _ask(
    question: Question, result: PolicyResult, env: CallEnv
) -> Approved | Declined | AskDeferred:
    uncovered = env.policy.explain_insufficient_confirmation(result.subject, result.decision)
    if uncovered is None and question.via_call_tool:
        uncovered = "a call through call_tool"

    async def remember(approved: Approved) -> None:
        await remember_approval(approved, question.options, result, env)

    return await env.services.approver.ask(
        question, env.caller, not_covered_by_client=uncovered, remember=remember
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
    """An approval holds for the files to which the paths resolved when the question was asked."""
    if approved_paths != result.subject.resolved_paths:
        raise build_path_change_refusal(", ".join(result.subject.resolved_paths or approved_paths))


def _format_denial(result: PolicyResult, policy: Policy) -> str:
    decision, name = result.decision, result.reviewed.checked.tool.rule_name
    text = f"Permission to use {name} has been denied: {decision.by.reason} ({decision.by.origin})."
    if not decision.undecided:
        return text
    line = policy.suggest_allow_line(result.subject)
    return f'{text} To allow it, add to "permissions" in settings.json: {line}'
