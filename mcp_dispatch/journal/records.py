"""Journal records: of calls, of proxied requests and of hooks."""

from datetime import UTC, datetime
from typing import assert_never

from mcp_dispatch.journal.reader import ACTIVATED_KEY as ACTIVATED
from mcp_dispatch.journal.redact.redact import redact, redact_text
from mcp_dispatch.model.calls import Completed, Outcome, ToolCall
from mcp_dispatch.model.client import InputRequired
from mcp_dispatch.model.decision import Decision
from mcp_dispatch.model.hook_context import HookRecord
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.names import CALL_TOOL
from mcp_dispatch.model.outcome import Cancelled, ProtocolError, Refusal, Suspended
from mcp_dispatch.model.tools import ToolsActivated

_MAX_TEXT_CHARS = 2_000
_MAX_NAME_CHARS = 256
_MAX_TOTAL_CHARS = 32_000


def build_call_record(
    call: ToolCall,
    outcome: Outcome,
    *,
    scope: str,
    started: float,
    seconds: float,
    tool: str | None = None,
    result_chars: int | None = None,
) -> JsonObject:
    """Return the record of a call, with secrets redacted.

    `started` is in seconds since the epoch; `tool` is the rule name of the tool, if it was found.
    """
    decision = _find_decision(outcome)
    return {
        "time": format_timestamp(started),
        "scope": scope,
        "call": call.id,
        "tool_use_id": redact_text(call.tool_use_id, _MAX_NAME_CHARS),
        "tool": redact_text(tool or call.name, _MAX_NAME_CHARS),
        "name": redact_text(call.name, _MAX_NAME_CHARS),
        **({"through": CALL_TOOL} if call.via_call_tool else {}),
        "arguments": redact(call.arguments, _MAX_TEXT_CHARS, _MAX_TOTAL_CHARS),
        **_describe_outcome(call, outcome),
        **({} if decision is None else {"decision": _describe_decision(decision)}),
        "seconds": round(seconds, 6),
        **({} if result_chars is None else {"result_chars": result_chars}),
    }


def build_shrunk_record(completed: Completed, *, scope: str, now: float) -> JsonObject:
    """Return the record of a result that was stored on disk because the results of its message were
    too large together."""
    return {
        "time": format_timestamp(now),
        "scope": scope,
        "call": completed.executed.permitted.reviewed.checked.call.id,
        "event": "result_shrunk",
        "replaced": [each.to_record() for each in completed.replaced],
    }


def build_request_record(
    id: str,
    method: str,
    server: str,
    params: JsonObject,
    outcome: JsonObject | ProtocolError | InputRequired,
    *,
    scope: str,
    started: float,
    seconds: float,
) -> JsonObject:
    """Return the record of a request other than a call, such as `prompts/get` or
    `resources/read`."""
    ended: JsonObject = {"outcome": "completed"}
    if isinstance(outcome, ProtocolError):
        ended = {
            "outcome": "protocol_error",
            "code": outcome.code,
            "message": _redact_message(outcome.message),
        }
    elif isinstance(outcome, InputRequired):
        ended = {
            "outcome": "suspended",
            "asks": [_redact_message(key) for key in outcome.input_requests],
        }
    return {
        "time": format_timestamp(started),
        "scope": scope,
        "call": id,
        "tool": redact_text(f"mcp__{server}", _MAX_NAME_CHARS),
        "name": method,
        "arguments": redact(params, _MAX_TEXT_CHARS, _MAX_TOTAL_CHARS),
        **ended,
        "seconds": round(seconds, 6),
    }


def format_timestamp(started: float) -> str:
    return datetime.fromtimestamp(started, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _describe_outcome(call: ToolCall, outcome: Outcome) -> JsonObject:
    match outcome:
        case Completed():
            return _describe_completed(call, outcome)
        case Refusal(by, message):
            return {"outcome": "refused", "by": by.value, "message": _redact_message(message)}
        case Suspended(input_requests, _):
            # The state is a secret of the client: it is never recorded.
            return {
                "outcome": "suspended",
                "asks": [_redact_message(key) for key in input_requests],
            }
        case ProtocolError(code, message, _):
            return {"outcome": "protocol_error", "code": code, "message": _redact_message(message)}
        case Cancelled(reason, message):
            return {
                "outcome": "cancelled",
                "reason": reason.value,
                "message": _redact_message(message),
            }
        case _:
            assert_never(outcome)


def _describe_completed(call: ToolCall, completed: Completed) -> JsonObject:
    """`ran_with` is recorded only if a hook, an approver or the tool changed the arguments."""
    ending: JsonObject = {
        "outcome": "error" if completed.wire.get("isError") is True else "completed"
    }
    approved = completed.executed.permitted.approved
    if approved is not None:
        ending["approved"] = {"by": approved.by, "extent": approved.scope.value}
    ran_with = completed.executed.permitted.arguments
    if ran_with != call.arguments:
        ending["ran_with"] = redact(ran_with, _MAX_TEXT_CHARS, _MAX_TOTAL_CHARS)
    if activated := _list_activated(completed):
        ending[ACTIVATED] = activated
    if completed.replaced:
        ending["replaced"] = [each.to_record() for each in completed.replaced]
    return ending


def _list_activated(completed: Completed) -> list[Json]:
    changes = completed.executed.result.changes
    return [n for change in changes if isinstance(change, ToolsActivated) for n in change.tools]


def _find_decision(outcome: Outcome) -> Decision | None:
    if isinstance(outcome, Completed):
        return outcome.executed.permitted.decision
    return outcome.decision if isinstance(outcome, Refusal) else None


def _describe_decision(decision: Decision) -> JsonObject:
    return {
        "effect": decision.effect.name.lower(),
        "tier": decision.by.tier.name.lower(),
        "reason": _redact_message(decision.by.reason),
        "origin": _redact_message(str(decision.by.origin)),
    }


def _redact_message(message: str) -> str:
    return redact_text(message, _MAX_TEXT_CHARS)


def build_hook_record(
    record: HookRecord, *, scope: str, call: str | None, now: float
) -> JsonObject:
    """Return the record of a hook event, with secrets redacted. `now` is in seconds since the
    epoch."""
    return {
        "time": format_timestamp(now),
        "scope": scope,
        **({} if call is None else {"call": call}),
        "event": record.event.value,
        "hook": redact_text(record.hook, _MAX_NAME_CHARS),
        "details": redact(record.details, _MAX_TEXT_CHARS, _MAX_TOTAL_CHARS),
    }
