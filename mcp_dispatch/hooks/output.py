"""What a hook said: exit code, stdout and stderr, read into one answer."""

from dataclasses import dataclass, replace
from typing import Final, cast

from mcp_dispatch.hooks.events import Event
from mcp_dispatch.hooks.said import (
    AfterDocument,
    BeforeDocument,
    Document,
    NotAnAnswer,
    looks_like_json,
    read_after,
    read_before,
)
from mcp_dispatch.hooks.text import capped, first_line, shown
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import JsonObject

_BLOCKS: Final = 2
_EFFECTS: Final = {"allow": Effect.ALLOW, "ask": Effect.ASK, "deny": Effect.DENY}
_LEGACY_EFFECTS: Final = {"approve": Effect.ALLOW, "block": Effect.DENY}


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


def read_answer(event: Event, printed: Printed) -> HookAnswer:
    """Exit 2 blocks whatever was printed; otherwise JSON decides, on every exit code."""
    try:
        answer = _spoken(event, printed)
    except NotAnAnswer as error:
        answer = HookAnswer(failure=Failure(str(error)))
    if printed.code == _BLOCKS:
        return _blocked(answer or HookAnswer(), printed)
    if answer is None:
        return HookAnswer(failure=_exit_failure(printed))
    return _of_the_dead(answer, printed.code) if printed.code < 0 else answer


def _spoken(event: Event, printed: Printed) -> HookAnswer | None:
    """What stdout says in JSON; None where it holds none."""
    if not looks_like_json(printed.stdout):
        return None
    if printed.dropped:
        raise NotAnAnswer(f"stdout is not short enough to be read: {printed.dropped} bytes over")
    if event is Event.PRE_TOOL_USE:
        return _before(read_before(printed.stdout))
    return _after(read_after(printed.stdout, event))


def _before(document: BeforeDocument) -> HookAnswer:
    specific = document.specific
    effects = [_LEGACY_EFFECTS[document.decision]] if document.decision else []
    if specific is None:
        return _answer(document, effects, document.reason)
    decision = specific.permission_decision
    if decision in _EFFECTS:
        effects.append(_EFFECTS[decision])
    deferred = ("defer has no meaning here and is dropped",) if decision == "defer" else ()
    answer = _answer(document, effects, specific.permission_decision_reason or document.reason)
    return replace(
        answer,
        context=capped(specific.additional_context),
        rewrite=cast("JsonObject | None", specific.updated_input),
        notes=answer.notes + deferred,
    )


def _after(document: AfterDocument) -> HookAnswer:
    effects = [Effect.DENY] if document.decision == "block" else []
    answer = _answer(document, effects, document.reason)
    if document.specific is None:
        return answer
    given = document.specific.model_fields_set
    replaced = given & {"updated_tool_output", "updated_mcp_tool_output"}
    note = ("a replaced output is not supported yet; the tool's own stands",) if replaced else ()
    return replace(
        answer, context=capped(document.specific.additional_context), notes=answer.notes + note
    )


def _answer(document: Document, effects: list[Effect], reason: str) -> HookAnswer:
    async_note = "async is not supported yet; the hook was waited for"
    return HookAnswer(
        effect=max(effects, default=None),
        reason=capped(reason) if effects else "",
        stopped=None if document.go_on else capped(document.stop_reason) or "a hook said so",
        message=capped(document.system_message),
        notes=(async_note,) if document.background else (),
    )


def _blocked(answer: HookAnswer, printed: Printed) -> HookAnswer:
    own = answer.reason if answer.effect is Effect.DENY else ""
    fault = (answer.failure.message,) if answer.failure else ()
    return replace(
        answer,
        effect=Effect.DENY,
        reason=own or capped(printed.stderr.strip()),
        rewrite=None,
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


def _of_the_dead(answer: HookAnswer, code: int) -> HookAnswer:
    """A hook that was killed had not finished: what it forbids stands, what it allows does not."""
    if answer.effect is not Effect.ALLOW:
        return answer
    note = f"it was killed by signal {-code}; what it allows does not count"
    return replace(answer, effect=None, reason="", notes=(*answer.notes, note))
