"""What the journal is told of hooks."""

from collections.abc import Iterator, Sequence

from mcp_dispatch.hooks.config import Hook
from mcp_dispatch.hooks.merge import Spoken
from mcp_dispatch.model.hook_context import HookEvent, HookRecord
from mcp_dispatch.model.json import JsonObject


def records_of(name: str, spoken: Spoken) -> Iterator[HookRecord]:
    """One line for each thing that a hook did, in the order in which it matters."""
    answer, hook = spoken.answer, spoken.hook
    if answer.failure is not None and answer.failure.timed_out:
        yield cancelled(name, hook, answer.failure.message)
    elif answer.failure is not None:
        yield HookRecord(HookEvent.ERROR, name, {**_who(hook), "error": answer.failure.message})
    if answer.effect is not None:
        decided: JsonObject = {"decision": answer.effect.name.lower(), "reason": answer.reason}
        yield HookRecord(HookEvent.PERMISSION_DECISION, name, {**_who(hook), **decided})
    if answer.context:
        yield HookRecord(
            HookEvent.ADDITIONAL_CONTEXT, name, {**_who(hook), "content": answer.context}
        )
    if answer.stopped is not None:
        yield HookRecord(
            HookEvent.STOPPED_CONTINUATION, name, {**_who(hook), "message": answer.stopped}
        )


def cancelled(name: str, hook: Hook, why: str) -> HookRecord:
    return HookRecord(HookEvent.CANCELLED, name, {**_who(hook), "reason": why})


def summary(name: str, spoken: Sequence[Spoken], seconds: float) -> HookRecord:
    stops = [each.answer.stopped for each in spoken if each.answer.stopped is not None]
    details: JsonObject = {
        "count": len(spoken),
        "infos": [f"{each.hook.action.label}: {_info(each)}" for each in spoken],
        "errors": [
            f"{each.hook.action.label}: {each.answer.failure.message}"
            for each in spoken
            if each.answer.failure is not None
        ],
        "prevented_continuation": bool(stops),
        "stop_reason": "; ".join(stops),
        "seconds": round(seconds, 6),
    }
    return HookRecord(HookEvent.SUMMARY, name, details)


def _who(hook: Hook) -> JsonObject:
    return {"command": hook.action.label, "file": str(hook.file)}


def _info(spoken: Spoken) -> str:
    answer = spoken.answer
    if answer.message:
        return answer.message
    if answer.effect is not None:
        return answer.effect.name.lower()
    return "failed" if answer.failure is not None else "ok"
