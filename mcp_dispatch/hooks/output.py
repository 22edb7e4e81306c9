"""What a hook said: exit code, stdout and stderr, read into one answer."""

from dataclasses import dataclass, replace
from typing import Final, cast

from mcp_dispatch.hooks.events import BLOCKED_BY_EXIT_2, SAY_IN_PLAIN_TEXT, Event
from mcp_dispatch.hooks.output_models import (
    After,
    Before,
    Decided,
    Denied,
    Document,
    Elicited,
    NotAnAnswer,
    Permission,
    Specific,
    looks_like_json,
    read_document,
)
from mcp_dispatch.model.calls import NewOutput
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import capped, first_line, shown

_BLOCKS: Final = 2
_EFFECTS: Final = {"allow": Effect.ALLOW, "ask": Effect.ASK, "deny": Effect.DENY}
_LEGACY_EFFECTS: Final = {"approve": Effect.ALLOW, "block": Effect.DENY}

_DEFERRED: Final = "defer has no meaning here and is dropped"
_NOT_REMEMBERED: Final = "updatedPermissions has no effect here: what it allows is for this call"
_WAITED_FOR: Final = 'it said "async" too late, at its end: it was waited for and decides nothing'


@dataclass(frozen=True, slots=True)
class Printed:
    """What a hook left behind. A negative code is the signal that killed it."""

    code: int
    stdout: str = ""
    stderr: str = ""
    dropped: int = 0
    """Bytes of stdout that are not in `stdout`: the end of a flood is not kept."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The hook could not be heard: not started, too late, or not understood."""

    message: str
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """One hook's answer. After the tool has run, DENY is a complaint for the model to read."""

    effect: Effect | None = None
    reason: str = ""
    context: str = ""
    rewrite: JsonObject | None = None
    stopped: str | None = None
    message: str = ""
    """For the person, not for the model."""
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    """What the hook said that has no effect."""
    output: NewOutput | None = None
    reply: JsonObject | None = None
    """The answer to an elicitation: `{"action": …, "content"?: …}`."""
    retry: bool = False
    """The call that was denied may be made again."""


def read_answer(event: Event, printed: Printed) -> HookAnswer:
    """Exit 2 blocks what can be blocked; otherwise JSON decides, on every exit code."""
    try:
        answer = _spoken(event, printed)
    except NotAnAnswer as error:
        answer = HookAnswer(failure=Failure(str(error)))
    if printed.code == _BLOCKS:
        if event in BLOCKED_BY_EXIT_2:
            return _blocked(answer or HookAnswer(), printed)
        answer = answer and _unallowed(answer, "it exited with 2; what it allows does not count")
    if answer is None:
        return HookAnswer(failure=_exit_failure(printed), context=_plain(event, printed))
    if printed.code < 0:
        # A hook that was killed had not finished: what it forbids stands.
        note = f"it was killed by signal {-printed.code}; what it allows does not count"
        return _unallowed(answer, note)
    return answer


def _spoken(event: Event, printed: Printed) -> HookAnswer | None:
    """What stdout says in JSON; None where it holds none."""
    if not looks_like_json(printed.stdout):
        return None
    if printed.dropped:
        raise NotAnAnswer(f"stdout is not short enough to be read: {printed.dropped} bytes over")
    return _answer(event, *read_document(event, printed.stdout))


def _answer(event: Event, document: Document, specific: Specific | None) -> HookAnswer:
    legacy = None if document.decision is None else _LEGACY_EFFECTS[document.decision]
    if event is not Event.PRE_TOOL_USE and legacy is Effect.ALLOW:
        legacy = None
    answer = HookAnswer(
        effect=legacy,
        reason="" if legacy is None else capped(document.reason),
        stopped=None if document.go_on else capped(document.stop_reason) or "a hook said so",
        message=capped(document.system_message),
    )
    if specific is not None:
        answer = replace(answer, context=specific.additional_context)
    match specific:
        case Before():
            answer = _before(answer, specific, document.reason)
        case After():
            answer = _after(answer, specific)
        case Permission(decision=Decided() as decided):
            answer = _permission(answer, decided)
        case Denied():
            answer = replace(answer, retry=specific.retry)
        case Elicited(action=str()):
            answer = replace(answer, reply=_reply(specific))
        case _:
            pass
    return _too_late(answer) if document.background else answer


def _before(answer: HookAnswer, said: Before, spare_reason: str) -> HookAnswer:
    notes = (_DEFERRED,) if said.permission_decision == "defer" else ()
    answer = replace(
        answer,
        rewrite=cast("JsonObject | None", said.updated_input),
        notes=notes,
    )
    own = _EFFECTS.get(said.permission_decision or "")
    if own is None:
        return answer
    # Of two decisions in one answer the stricter stands.
    effect = own if answer.effect is None else max(own, answer.effect)
    reason = said.permission_decision_reason or spare_reason
    return replace(answer, effect=effect, reason=capped(reason))


def _after(answer: HookAnswer, said: After) -> HookAnswer:
    if "updated_tool_output" in said.model_fields_set:
        return replace(answer, output=NewOutput(cast(Json, said.updated_tool_output)))
    if "updated_mcp_tool_output" in said.model_fields_set:
        return replace(answer, output=NewOutput(cast(Json, said.updated_mcp_tool_output)))
    return answer


def _permission(answer: HookAnswer, decided: Decided) -> HookAnswer:
    denies = decided.behavior == "deny" or answer.effect is Effect.DENY
    if denies:
        reason = decided.message if decided.behavior == "deny" else answer.reason
        stopped = answer.stopped
        if decided.interrupt and stopped is None:
            stopped = capped(decided.message) or "a hook said so"
        return replace(answer, effect=Effect.DENY, reason=capped(reason), stopped=stopped)
    return replace(
        answer,
        effect=Effect.ALLOW,
        rewrite=cast("JsonObject | None", decided.updated_input),
        notes=(_NOT_REMEMBERED,) if decided.updated_permissions else (),
    )


def _reply(said: Elicited) -> JsonObject:
    reply: JsonObject = {"action": said.action}
    if said.action == "accept":
        reply["content"] = cast("JsonObject", said.content or {})
    return reply


def _too_late(answer: HookAnswer) -> HookAnswer:
    return HookAnswer(
        context=answer.context, message=answer.message, notes=(*answer.notes, _WAITED_FOR)
    )


def _blocked(answer: HookAnswer, printed: Printed) -> HookAnswer:
    own = answer.reason if answer.effect is Effect.DENY else ""
    fault = (answer.failure.message,) if answer.failure else ()
    return replace(
        answer,
        effect=Effect.DENY,
        reason=own or capped(printed.stderr.strip()),
        rewrite=None,
        reply=None,
        failure=None,
        notes=answer.notes + fault,
    )


def _exit_failure(printed: Printed) -> Failure | None:
    if printed.code == 0:
        return None
    if printed.code < 0:
        return Failure(f"killed by signal {-printed.code}")
    said = shown(first_line(printed.stderr)) or "nothing on stderr"
    return Failure(f"Failed with non-blocking status code {printed.code}: {said}")


def _plain(event: Event, printed: Printed) -> str:
    """Of a flood, the head that was kept."""
    meant = event in SAY_IN_PLAIN_TEXT and printed.code == 0
    return printed.stdout.strip() if meant else ""


def _unallowed(answer: HookAnswer, note: str) -> HookAnswer:
    """What it forbids stands, what it allows does not."""
    accepts = answer.reply is not None and answer.reply["action"] == "accept"
    if answer.effect is not Effect.ALLOW and not accepts:
        return answer
    notes = (*answer.notes, note)
    return replace(answer, effect=None, reason="", reply=None, notes=notes)
