"""Parses exit code, stdout and stderr of a hook into one answer."""

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
    """The raw output of a hook. A negative exit code is the signal that killed it."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    dropped_bytes: int = 0
    """Number of bytes of stdout over the limit, which are not in `stdout`."""


@dataclass(frozen=True, slots=True)
class HookFailure:
    """The hook did not start, timed out, or printed something that is not an answer."""

    message: str
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class HookChanges:
    """What a hook wants changed about the call or about what follows it."""

    rewrite: JsonObject | None = None
    """New arguments for the call."""
    output: NewOutput | None = None
    """A replacement for the tool's result."""
    elicitation_reply: JsonObject | None = None
    """The answer to an elicitation: `{"action": …, "content"?: …}`."""
    retry: bool = False
    """The model may repeat the denied call."""
    stop_reason: str | None = None
    """Set if the hook printed `continue: false`."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """One hook's parsed answer. After the tool has run, DENY is feedback for the model."""

    effect: Effect | None = None
    reason: str = ""
    context: str = ""
    message: str = ""
    """For the person, not for the model."""
    failure: HookFailure | None = None
    notes: tuple[str, ...] = ()
    """Parts of the output that have no effect."""
    changes: HookChanges = HookChanges()


def parse_answer(event: HookEventName, output: HookOutput) -> HookAnswer:
    """Parse the output. Exit code 2 blocks events that support it; otherwise JSON on stdout decides,
    whatever the exit code."""
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
        # A killed hook had not finished: its deny counts, its allow does not.
        note = f"it was killed by signal {-output.exit_code}; what it allows does not count"
        return _drop_permission(answer, note)
    return answer


def _parse_stdout(event: HookEventName, output: HookOutput) -> HookAnswer | None:
    """Return the answer in stdout, or None if stdout is not JSON."""
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
        message=truncate_with_count(document.system_message),
    )
    if not document.should_continue:
        answer = _stop(answer, document.stop_reason)
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
            answer = _change(answer, HookChanges(retry=specific.retry))
        case ElicitationOutput(action=str()):
            reply = _build_elicitation_reply(specific)
            answer = _change(answer, HookChanges(elicitation_reply=reply))
        case _:
            pass
    return _discard_decision(answer) if document.background else answer


def _apply_pre_tool_use(
    answer: HookAnswer, specific: PreToolUseOutput, fallback_reason: str
) -> HookAnswer:
    notes = (_DEFER_NOTE,) if specific.permission_decision == "defer" else ()
    rewrite = cast("JsonObject | None", specific.updated_input)
    answer = _change(replace(answer, notes=notes), HookChanges(rewrite=rewrite))
    own = _EFFECTS.get(specific.permission_decision or "")
    if own is None:
        return answer
    # If one answer contains two decisions, the stricter one applies.
    effect = own if answer.effect is None else max(own, answer.effect)
    reason = specific.permission_decision_reason or fallback_reason
    return replace(answer, effect=effect, reason=truncate_with_count(reason))


def _apply_post_tool_use(answer: HookAnswer, specific: PostToolUseOutput) -> HookAnswer:
    if "updated_tool_output" in specific.model_fields_set:
        value = specific.updated_tool_output
    elif "updated_mcp_tool_output" in specific.model_fields_set:
        value = specific.updated_mcp_tool_output
    else:
        return answer
    return _change(answer, HookChanges(output=NewOutput(cast(Json, value))))


def _apply_permission_request(
    answer: HookAnswer, decision: PermissionRequestDecision
) -> HookAnswer:
    denies = decision.behavior == "deny" or answer.effect is Effect.DENY
    if denies:
        reason = decision.message if decision.behavior == "deny" else answer.reason
        if decision.interrupt and answer.changes.stop_reason is None:
            answer = _stop(answer, decision.message)
        return replace(answer, effect=Effect.DENY, reason=truncate_with_count(reason))
    notes = (_UPDATED_PERMISSIONS_NOTE,) if decision.updated_permissions else ()
    rewrite = cast("JsonObject | None", decision.updated_input)
    return _change(replace(answer, effect=Effect.ALLOW, notes=notes), HookChanges(rewrite=rewrite))


def _change(answer: HookAnswer, changes: HookChanges) -> HookAnswer:
    """Set the changes of one event; a stop that is already requested stays."""
    stop_reason = answer.changes.stop_reason
    return replace(answer, changes=replace(changes, stop_reason=stop_reason))


def _stop(answer: HookAnswer, reason: str) -> HookAnswer:
    stop_reason = truncate_with_count(reason) or "a hook said so"
    return replace(answer, changes=replace(answer.changes, stop_reason=stop_reason))


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
        failure=None,
        notes=answer.notes + fault,
        changes=replace(answer.changes, rewrite=None, elicitation_reply=None),
    )


def _build_exit_failure(output: HookOutput) -> HookFailure | None:
    if output.exit_code == 0:
        return None
    if output.exit_code < 0:
        return HookFailure(f"killed by signal {-output.exit_code}")
    said = format_excerpt(extract_first_line(output.stderr)) or "nothing on stderr"
    return HookFailure(f"Failed with non-blocking status code {output.exit_code}: {said}")


def _extract_plain_text(event: HookEventName, output: HookOutput) -> str:
    """Return stdout for the model if the event accepts plain text; truncated output included."""
    meant = event in PLAIN_TEXT_EVENTS and output.exit_code == 0
    return output.stdout.strip() if meant else ""


def _drop_permission(answer: HookAnswer, note: str) -> HookAnswer:
    """Remove an allow or an acceptance; a deny stays."""
    reply = answer.changes.elicitation_reply
    accepts = reply is not None and reply["action"] == "accept"
    if answer.effect is not Effect.ALLOW and not accepts:
        return answer
    changes = replace(answer.changes, elicitation_reply=None)
    return replace(answer, effect=None, reason="", notes=(*answer.notes, note), changes=changes)
