"""Merges the answers of all hooks of one event, in configuration order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcp_dispatch.hooks.config import Hook, MatchedHook
from mcp_dispatch.hooks.events import format_hook_name
from mcp_dispatch.hooks.output import HookAnswer
from mcp_dispatch.model.calls import PostHookResult, PreHookResult, Rewrite
from mcp_dispatch.model.decision import Effect, Tier, Vote
from mcp_dispatch.model.json import JsonObject

_TIERS: Final = {
    Effect.DENY: Tier.DENY,
    Effect.ASK: Tier.HARD_ASK,
    Effect.ALLOW: Tier.ALLOW,
}
_DEFAULT_REASONS: Final = {
    Effect.DENY: "a hook blocked it and gave no reason",
    Effect.ASK: "a hook wants a person to confirm it",
    Effect.ALLOW: "a hook allows it",
}


@dataclass(frozen=True, slots=True)
class HookReply:
    """A hook and its answer."""

    hook: Hook
    answer: HookAnswer


def build_reply(matched: MatchedHook, answer: HookAnswer, subject: str) -> HookReply:
    """Apply the hook's options to its answer: `async`, `onFailure` and an uncertain match."""
    hook = matched.hook
    if hook.action.background:
        answer = HookAnswer(
            context=answer.context,
            message=answer.message,
            failure=answer.failure,
            notes=answer.notes,
        )
    elif answer.failure and hook.action.block_on_failure:
        answer = replace(
            answer, effect=Effect.DENY, reason=_format_failure_reason(hook, answer, subject)
        )
    elif answer.effect is Effect.ALLOW and not matched.sure:
        note = "it may not be meant for this call; what it allows does not count"
        answer = replace(answer, effect=None, reason="", notes=(*answer.notes, note))
    return HookReply(hook, answer)


def _format_failure_reason(hook: Hook, answer: HookAnswer, subject: str) -> str:
    how = "timed out" if answer.failure and answer.failure.timed_out else "failed"
    name = format_hook_name(hook.event, subject)
    return f'{name} hook error: [{hook.action.label}]: {how}; blocking because onFailure is "block"'


def merge_pre_tool_use(tool: str, replies: Sequence[HookReply]) -> PreHookResult:
    """Merge PreToolUse answers. If a hook denies the call, no rewrite is applied."""
    votes = tuple(vote for each in replies if (vote := _build_vote(each)) is not None)
    denied = any(vote.effect is Effect.DENY for vote in votes)
    return PreHookResult(
        votes=votes,
        contexts=tuple(_format_contexts(tool, replies)),
        rewrite=None if denied else _find_last_rewrite(replies),
        stopped=_join_stop_reasons(replies),
    )


def merge_post_tool_use(tool: str, replies: Sequence[HookReply]) -> PostHookResult:
    """Merge PostToolUse and PostToolUseFailure answers. The tool has run, so a block only adds text."""
    contexts: list[str] = []
    for each in replies:
        if each.answer.effect is Effect.DENY:
            contexts.append(_format_block_message(tool, each))
        contexts.extend(_format_contexts(tool, [each]))
    outputs = [
        each.answer.changes.output for each in replies if each.answer.changes.output is not None
    ]
    return PostHookResult(
        tuple(contexts), _join_stop_reasons(replies), outputs[-1] if outputs else None
    )


def merge_post_tool_batch(replies: Sequence[HookReply]) -> PostHookResult:
    """Merge PostToolBatch answers. A block becomes a stop reason; only the client can stop."""
    stops = [
        each.answer.changes.stop_reason
        for each in replies
        if each.answer.changes.stop_reason is not None
    ]
    blocks = [_choose_reason(each) for each in replies if each.answer.effect is Effect.DENY]
    reasons = [*stops, *blocks]
    return PostHookResult(
        tuple(_format_contexts("", replies)), "; ".join(reasons) if reasons else None
    )


def collect_session_contexts(source: str, replies: Sequence[HookReply]) -> tuple[str, ...]:
    return tuple(_format_contexts(source, replies))


def merge_permission_request(tool: str, replies: Sequence[HookReply]) -> PreHookResult:
    """Merge PermissionRequest answers. Only a hook that allows may rewrite, unless one denies."""
    allowing = [each for each in replies if each.answer.effect is Effect.ALLOW]
    votes = tuple(vote for each in replies if (vote := _build_vote(each)) is not None)
    denied = any(vote.effect is Effect.DENY for vote in votes)
    return PreHookResult(
        votes=votes,
        contexts=tuple(_format_contexts(tool, replies)),
        rewrite=None if denied else _find_last_rewrite(allowing),
        stopped=_join_stop_reasons(replies),
    )


def may_retry(replies: Sequence[HookReply]) -> bool:
    return any(each.answer.changes.retry for each in replies)


def merge_elicitation(spoken: Sequence[HookReply]) -> JsonObject | None:
    """Merge Elicitation answers. The first refusal wins; otherwise the last acceptance does."""
    replies = [_convert_denial(each) or each.answer.changes.elicitation_reply for each in spoken]
    given = [reply for reply in replies if reply is not None]
    refusing = [reply for reply in given if reply["action"] != "accept"]
    return (refusing or given[-1:] or [None])[0]


def merge_elicitation_result(answer: JsonObject, replies: Sequence[HookReply]) -> JsonObject:
    """Merge ElicitationResult answers. A hook cannot turn a person's refusal into an acceptance."""
    changed = merge_elicitation(replies)
    if changed is None or (changed["action"] == "accept" and answer.get("action") != "accept"):
        return answer
    return changed


def _convert_denial(reply: HookReply) -> JsonObject | None:
    return {"action": "decline"} if reply.answer.effect is Effect.DENY else None


def _build_vote(reply: HookReply) -> Vote | None:
    effect = reply.answer.effect
    if effect is None:
        return None
    return Vote(_TIERS[effect], effect, _choose_reason(reply), reply.hook.origin)


def _choose_reason(reply: HookReply) -> str:
    effect = reply.answer.effect
    return reply.answer.reason or ("" if effect is None else _DEFAULT_REASONS[effect])


def format_context(subject: str, reply: HookReply) -> str:
    """Return the hook's context with a prefix that names the hook, or an empty text."""
    if not reply.answer.context:
        return ""
    name = format_hook_name(reply.hook.event, subject)
    return f"{name} hook additional context: {reply.answer.context}"


def _format_contexts(subject: str, replies: Iterable[HookReply]) -> Iterable[str]:
    return filter(None, (format_context(subject, each) for each in replies))


def _find_last_rewrite(replies: Sequence[HookReply]) -> Rewrite | None:
    for each in reversed(replies):
        if each.answer.changes.rewrite is not None:
            return Rewrite(each.answer.changes.rewrite, str(each.hook.origin))
    return None


def _join_stop_reasons(replies: Sequence[HookReply]) -> str | None:
    reasons = [
        each.answer.changes.stop_reason
        for each in replies
        if each.answer.changes.stop_reason is not None
    ]
    return "; ".join(reasons) if reasons else None


def _format_block_message(tool: str, reply: HookReply) -> str:
    name, label = format_hook_name(reply.hook.event, tool), reply.hook.action.label
    return f'{name} hook blocking error from command: "{label}": {_choose_reason(reply)}'
