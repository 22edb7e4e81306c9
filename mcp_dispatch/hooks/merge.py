"""All answers to one event, in configuration order, made one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mcp_dispatch.hooks.config import Hook, Matched
from mcp_dispatch.hooks.events import hook_name
from mcp_dispatch.hooks.output import HookAnswer
from mcp_dispatch.model.calls import Afterword, Review, Rewrite
from mcp_dispatch.model.decision import Effect, Tier, Vote

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


def heeded(matched: Matched, answer: HookAnswer, tool: str) -> Spoken:
    """What of an answer counts, by what the configuration says of its hook."""
    hook = matched.hook
    if hook.action.background:
        answer = replace(answer, effect=None, reason="", rewrite=None, stopped=None)
    elif answer.failure and hook.action.block_on_failure:
        answer = replace(answer, effect=Effect.DENY, reason=_failure_reason(hook, answer, tool))
    elif answer.effect is Effect.ALLOW and not matched.sure:
        note = "it may not be meant for this call; what it allows does not count"
        answer = replace(answer, effect=None, reason="", notes=(*answer.notes, note))
    return Spoken(hook, answer)


def _failure_reason(hook: Hook, answer: HookAnswer, tool: str) -> str:
    how = "timed out" if answer.failure and answer.failure.timed_out else "failed"
    name = hook_name(hook.event, tool)
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
    return Afterword(tuple(contexts), _stopped(spoken))


def _vote(spoken: Spoken) -> Vote | None:
    effect = spoken.answer.effect
    if effect is None:
        return None
    reason = spoken.answer.reason or _WITHOUT_A_REASON[effect]
    return Vote(_TIERS[effect], effect, reason, spoken.hook.origin)


def _contexts(tool: str, spoken: Iterable[Spoken]) -> Iterable[str]:
    for each in spoken:
        if each.answer.context:
            name = hook_name(each.hook.event, tool)
            yield f"{name} hook additional context: {each.answer.context}"


def _last_rewrite(spoken: Sequence[Spoken]) -> Rewrite | None:
    for each in reversed(spoken):
        if each.answer.rewrite is not None:
            return Rewrite(each.answer.rewrite, str(each.hook.origin))
    return None


def _stopped(spoken: Sequence[Spoken]) -> str | None:
    reasons = [each.answer.stopped for each in spoken if each.answer.stopped is not None]
    return "; ".join(reasons) if reasons else None


def _complaint(tool: str, spoken: Spoken) -> str:
    name = hook_name(spoken.hook.event, tool)
    reason = spoken.answer.reason or _WITHOUT_A_REASON[Effect.DENY]
    return f'{name} hook blocking error from command: "{spoken.hook.action.label}": {reason}'
