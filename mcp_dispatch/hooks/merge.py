"""All answers to one event, in configuration order, made one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcp_dispatch.hooks.config import Hook, Matched
from mcp_dispatch.hooks.events import hook_name
from mcp_dispatch.hooks.output import HookAnswer
from mcp_dispatch.model.calls import Afterword, Review, Rewrite
from mcp_dispatch.model.decision import Effect, Tier, Vote
from mcp_dispatch.model.json import JsonObject

_TIERS: Final = {
    Effect.DENY: Tier.DENY,
    Effect.ASK: Tier.HARD_ASK,
    Effect.ALLOW: Tier.ALLOW,
}
_WITHOUT_A_REASON: Final = {
    Effect.DENY: "a hook blocked it and gave no reason",
    Effect.ASK: "a hook wants a person to confirm it",
    Effect.ALLOW: "a hook allows it",
}


@dataclass(frozen=True, slots=True)
class Spoken:
    """A hook and what it answered."""

    hook: Hook
    answer: HookAnswer


def heeded(matched: Matched, answer: HookAnswer, about: str) -> Spoken:
    """What of an answer counts, by what the configuration says of its hook."""
    hook = matched.hook
    if hook.action.background:
        answer = HookAnswer(
            context=answer.context,
            message=answer.message,
            failure=answer.failure,
            notes=answer.notes,
        )
    elif answer.failure and hook.action.block_on_failure:
        answer = replace(answer, effect=Effect.DENY, reason=_failure_reason(hook, answer, about))
    elif answer.effect is Effect.ALLOW and not matched.sure:
        note = "it may not be meant for this call; what it allows does not count"
        answer = replace(answer, effect=None, reason="", notes=(*answer.notes, note))
    return Spoken(hook, answer)


def _failure_reason(hook: Hook, answer: HookAnswer, about: str) -> str:
    how = "timed out" if answer.failure and answer.failure.timed_out else "failed"
    name = hook_name(hook.event, about)
    return f'{name} hook error: [{hook.action.label}]: {how}; blocking because onFailure is "block"'


def review(tool: str, spoken: Sequence[Spoken]) -> Review:
    """PreToolUse. A call that a hook denies will not run, so nothing is rewritten for it."""
    votes = tuple(vote for each in spoken if (vote := _vote(each)) is not None)
    denied = any(vote.effect is Effect.DENY for vote in votes)
    return Review(
        votes=votes,
        contexts=tuple(_contexts(tool, spoken)),
        rewrite=None if denied else _last_rewrite(spoken),
        stopped=_stopped(spoken),
    )


def afterword(tool: str, spoken: Sequence[Spoken]) -> Afterword:
    """PostToolUse and PostToolUseFailure: the tool has run, a block can only be told."""
    contexts: list[str] = []
    for each in spoken:
        if each.answer.effect is Effect.DENY:
            contexts.append(_complaint(tool, each))
        contexts.extend(_contexts(tool, [each]))
    outputs = [each.answer.output for each in spoken if each.answer.output is not None]
    return Afterword(tuple(contexts), _stopped(spoken), outputs[-1] if outputs else None)


def batch_afterword(spoken: Sequence[Spoken]) -> Afterword:
    """PostToolBatch: a block stops what would come next, which only the client can do."""
    stops = [each.answer.stopped for each in spoken if each.answer.stopped is not None]
    blocks = [_reason(each) for each in spoken if each.answer.effect is Effect.DENY]
    reasons = [*stops, *blocks]
    return Afterword(tuple(_contexts("", spoken)), "; ".join(reasons) if reasons else None)


def session_contexts(source: str, spoken: Sequence[Spoken]) -> tuple[str, ...]:
    return tuple(_contexts(source, spoken))


def verdict(tool: str, spoken: Sequence[Spoken]) -> Review:
    """PermissionRequest. Only who allows may rewrite, and nothing is rewritten for a denial."""
    allowing = [each for each in spoken if each.answer.effect is Effect.ALLOW]
    votes = tuple(vote for each in spoken if (vote := _vote(each)) is not None)
    denied = any(vote.effect is Effect.DENY for vote in votes)
    return Review(
        votes=votes,
        contexts=tuple(_contexts(tool, spoken)),
        rewrite=None if denied else _last_rewrite(allowing),
        stopped=_stopped(spoken),
    )


def may_retry(spoken: Sequence[Spoken]) -> bool:
    return any(each.answer.retry for each in spoken)


def reply_to_question(spoken: Sequence[Spoken]) -> JsonObject | None:
    """Elicitation. One no is a no; of several yeses the last in configuration order stands."""
    replies = [_no(each) or each.answer.reply for each in spoken]
    given = [reply for reply in replies if reply is not None]
    refusing = [reply for reply in given if reply["action"] != "accept"]
    return (refusing or given[-1:] or [None])[0]


def reply_of_person(answer: JsonObject, spoken: Sequence[Spoken]) -> JsonObject:
    """ElicitationResult. What a person refused stays refused, whatever a hook makes of it."""
    changed = reply_to_question(spoken)
    if changed is None or (changed["action"] == "accept" and answer.get("action") != "accept"):
        return answer
    return changed


def _no(spoken: Spoken) -> JsonObject | None:
    return {"action": "decline"} if spoken.answer.effect is Effect.DENY else None


def _vote(spoken: Spoken) -> Vote | None:
    effect = spoken.answer.effect
    if effect is None:
        return None
    return Vote(_TIERS[effect], effect, _reason(spoken), spoken.hook.origin)


def _reason(spoken: Spoken) -> str:
    effect = spoken.answer.effect
    return spoken.answer.reason or ("" if effect is None else _WITHOUT_A_REASON[effect])


def framed_context(about: str, spoken: Spoken) -> str:
    """What the hook says to the model, and that it is a hook that says it."""
    if not spoken.answer.context:
        return ""
    name = hook_name(spoken.hook.event, about)
    return f"{name} hook additional context: {spoken.answer.context}"


def _contexts(about: str, spoken: Iterable[Spoken]) -> Iterable[str]:
    return filter(None, (framed_context(about, each) for each in spoken))


def _last_rewrite(spoken: Sequence[Spoken]) -> Rewrite | None:
    for each in reversed(spoken):
        if each.answer.rewrite is not None:
            return Rewrite(each.answer.rewrite, str(each.hook.origin))
    return None


def _stopped(spoken: Sequence[Spoken]) -> str | None:
    reasons = [each.answer.stopped for each in spoken if each.answer.stopped is not None]
    return "; ".join(reasons) if reasons else None


def _complaint(tool: str, spoken: Spoken) -> str:
    name, label = hook_name(spoken.hook.event, tool), spoken.hook.action.label
    return f'{name} hook blocking error from command: "{label}": {_reason(spoken)}'
