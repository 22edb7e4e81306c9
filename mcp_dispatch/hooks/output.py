"""What a hook said: exit code, stdout and stderr, read into one answer."""

from dataclasses import dataclass, replace
from typing import Final, cast

from mcp_dispatch.hooks.events import EVENTS_BLOCKED_BY_EXIT_2, PLAIN_TEXT_EVENTS, HookEventName
from mcp_dispatch.hooks.output_models import (
    ElicitationOutput,
    HookOutputDocument,
    HookSpecificOutput,
    InvalidHookOutput,
    PermissionDeniedOutput,
    PermissionRequestDecision,
    PermissionRequestOutput,
    PostToolUseOutput,
    PreToolUseOutput,
    is_json_like,
    parse_document,
)
from mcp_dispatch.model.calls import NewOutput
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import extract_first_line, format_excerpt, truncate_with_count

_BLOCKING_EXIT_CODE: Final = 2
_EFFECTS: Final = {"allow": Effect.ALLOW, "ask": Effect.ASK, "deny": Effect.DENY}
_LEGACY_EFFECTS: Final = {"approve": Effect.ALLOW, "block": Effect.DENY}

_DEFER_NOTE: Final = "defer has no meaning here and is dropped"
_UPDATED_PERMISSIONS_NOTE: Final = (
    "updatedPermissions has no effect here: what it allows is for this call"
)
_LATE_ASYNC_NOTE: Final = (
    'it said "async" too late, at its end: it was waited for and decides nothing'
)


@dataclass(frozen=True, slots=True)
class HookOutput:
    """What a hook left behind. A negative code is the signal that killed it."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    dropped_bytes: int = 0
    """Bytes of stdout that are not in `stdout`: the end of a flood is not kept."""


@dataclass(frozen=True, slots=True)
class HookFailure:
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
    failure: HookFailure | None = None
    notes: tuple[str, ...] = ()
    """What the hook said that has no effect."""
    output: NewOutput | None = None
    reply: JsonObject | None = None
    """The answer to an elicitation: `{"action": …, "content"?: …}`."""
    retry: bool = False
    """The call that was denied may be made again."""


def parse_answer(event: HookEventName, output: HookOutput) -> HookAnswer:
    """Exit 2 blocks what can be blocked; otherwise JSON decides, on every exit code."""
    try:
        answer = _parse_stdout(event, output)
    except InvalidHookOutput as error:
        answer = HookAnswer(failure=HookFailure(str(error)))
    if output.exit_code == _BLOCKING_EXIT_CODE:
        if event in EVENTS_BLOCKED_BY_EXIT_2:
            return _apply_blocking_exit(answer or HookAnswer(), output)
        answer = answer and _drop_permission(
            answer, "it exited with 2; what it allows does not count"
        )
    if answer is None:
        return HookAnswer(
            failure=_build_exit_failure(output), context=_extract_plain_text(event, output)
        )
    if output.exit_code < 0:
        # A hook that was killed had not finished: what it forbids stands.
        note = f"it was killed by signal {-output.exit_code}; what it allows does not count"
        return _drop_permission(answer, note)
    return answer


def _parse_stdout(event: HookEventName, output: HookOutput) -> HookAnswer | None:
    """What stdout says in JSON; None where it holds none."""
    if not is_json_like(output.stdout):
        return None
    if output.dropped_bytes:
        raise InvalidHookOutput(
            f"stdout is not short enough to be read: {output.dropped_bytes} bytes over"
        )
    return _build_answer(event, *parse_document(event, output.stdout))


def _build_answer(
    event: HookEventName, document: HookOutputDocument, specific: HookSpecificOutput | None
) -> HookAnswer:
    legacy = None if document.decision is None else _LEGACY_EFFECTS[document.decision]
    if event is not HookEventName.PRE_TOOL_USE and legacy is Effect.ALLOW:
        legacy = None
    answer = HookAnswer(
        effect=legacy,
        reason="" if legacy is None else truncate_with_count(document.reason),
        stopped=None
        if document.should_continue
        else truncate_with_count(document.stop_reason) or "a hook said so",
        message=truncate_with_count(document.system_message),
    )
    if specific is not None:
        answer = replace(answer, context=specific.additional_context)
    match specific:
        case PreToolUseOutput():
            answer = _apply_pre_tool_use(answer, specific, document.reason)
        case PostToolUseOutput():
            answer = _apply_post_tool_use(answer, specific)
        case PermissionRequestOutput(decision=PermissionRequestDecision() as decided):
            answer = _apply_permission_request(answer, decided)
        case PermissionDeniedOutput():
            answer = replace(answer, retry=specific.retry)
        case ElicitationOutput(action=str()):
            answer = replace(answer, reply=_build_elicitation_reply(specific))
        case _:
            pass
    return _discard_decision(answer) if document.background else answer


def _apply_pre_tool_use(
    answer: HookAnswer, specific: PreToolUseOutput, fallback_reason: str
) -> HookAnswer:
    notes = (_DEFER_NOTE,) if specific.permission_decision == "defer" else ()
    answer = replace(
        answer,
        rewrite=cast("JsonObject | None", specific.updated_input),
        notes=notes,
    )
    own = _EFFECTS.get(specific.permission_decision or "")
    if own is None:
        return answer
    # Of two decisions in one answer the stricter stands.
    effect = own if answer.effect is None else max(own, answer.effect)
    reason = specific.permission_decision_reason or fallback_reason
    return replace(answer, effect=effect, reason=truncate_with_count(reason))


def _apply_post_tool_use(answer: HookAnswer, specific: PostToolUseOutput) -> HookAnswer:
    if "updated_tool_output" in specific.model_fields_set:
        return replace(answer, output=NewOutput(cast(Json, specific.updated_tool_output)))
    if "updated_mcp_tool_output" in specific.model_fields_set:
        return replace(answer, output=NewOutput(cast(Json, specific.updated_mcp_tool_output)))
    return answer


def _apply_permission_request(
    answer: HookAnswer, decision: PermissionRequestDecision
) -> HookAnswer:
    denies = decision.behavior == "deny" or answer.effect is Effect.DENY
    if denies:
        reason = decision.message if decision.behavior == "deny" else answer.reason
        stopped = answer.stopped
        if decision.interrupt and stopped is None:
            stopped = truncate_with_count(decision.message) or "a hook said so"
        return replace(
            answer, effect=Effect.DENY, reason=truncate_with_count(reason), stopped=stopped
        )
    return replace(
        answer,
        effect=Effect.ALLOW,
        rewrite=cast("JsonObject | None", decision.updated_input),
        notes=(_UPDATED_PERMISSIONS_NOTE,) if decision.updated_permissions else (),
    )


def _build_elicitation_reply(specific: ElicitationOutput) -> JsonObject:
    reply: JsonObject = {"action": specific.action}
    if specific.action == "accept":
        reply["content"] = cast("JsonObject", specific.content or {})
    return reply


def _discard_decision(answer: HookAnswer) -> HookAnswer:
    return HookAnswer(
        context=answer.context, message=answer.message, notes=(*answer.notes, _LATE_ASYNC_NOTE)
    )


def _apply_blocking_exit(answer: HookAnswer, output: HookOutput) -> HookAnswer:
    own = answer.reason if answer.effect is Effect.DENY else ""
    fault = (answer.failure.message,) if answer.failure else ()
    return replace(
        answer,
        effect=Effect.DENY,
        reason=own or truncate_with_count(output.stderr.strip()),
        rewrite=None,
        reply=None,
        failure=None,
        notes=answer.notes + fault,
    )


def _build_exit_failure(output: HookOutput) -> HookFailure | None:
    if output.exit_code == 0:
        return None
    if output.exit_code < 0:
        return HookFailure(f"killed by signal {-output.exit_code}")
    said = format_excerpt(extract_first_line(output.stderr)) or "nothing on stderr"
    return HookFailure(f"Failed with non-blocking status code {output.exit_code}: {said}")


def _extract_plain_text(event: HookEventName, output: HookOutput) -> str:
    """Of a flood, the head that was kept."""
    meant = event in PLAIN_TEXT_EVENTS and output.exit_code == 0
    return output.stdout.strip() if meant else ""


def _drop_permission(answer: HookAnswer, note: str) -> HookAnswer:
    """What it forbids stands, what it allows does not."""
    accepts = answer.reply is not None and answer.reply["action"] == "accept"
    if answer.effect is not Effect.ALLOW and not accepts:
        return answer
    notes = (*answer.notes, note)
    return replace(answer, effect=None, reason="", reply=None, notes=notes)
