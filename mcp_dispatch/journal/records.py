"""The record of one call: what was asked, how it ended and who decided."""

from datetime import UTC, datetime
from typing import assert_never

from mcp_dispatch.journal.reader import KEY as ACTIVATED
from mcp_dispatch.journal.redact.redact import redact, redact_text
from mcp_dispatch.model.calls import Completed, Outcome, ToolCall
from mcp_dispatch.model.client import Unfinished
from mcp_dispatch.model.decision import Decision
from mcp_dispatch.model.hook_context import HookRecord
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.names import CALL_TOOL
from mcp_dispatch.model.outcome import Cancelled, ProtocolError, Refusal, Suspended
from mcp_dispatch.model.tools import ToolsActivated

_LONGEST_TEXT = 2_000
_LONGEST_NAME = 256
_MOST_TEXT = 32_000


def record_of(
    call: ToolCall,
    outcome: Outcome,
    *,
    scope: str,
    started: float,
    seconds: float,
    tool: str | None = None,
    decision: Decision | None = None,
    result_chars: int | None = None,
) -> JsonObject:
    """One line of the journal, secrets redacted.

    `started` is in seconds since the epoch, `tool` the rule name where the call was resolved.
    `decision` is needed only for a call that did not complete: a completed one carries its own.
    """
    if isinstance(outcome, Completed):
        decision = outcome.executed.permitted.decision
    return {
        "time": rfc3339(started),
        "scope": scope,
        "call": call.id,
        "tool_use_id": redact_text(call.tool_use_id, _LONGEST_NAME),
        "tool": redact_text(tool or call.name, _LONGEST_NAME),
        "name": redact_text(call.name, _LONGEST_NAME),
        **({"through": CALL_TOOL} if call.enveloped else {}),
        "arguments": redact(call.arguments, _LONGEST_TEXT, _MOST_TEXT),
        **_ending(call, outcome),
        **({} if decision is None else {"decision": _decided(decision)}),
        "seconds": round(seconds, 6),
        **({} if result_chars is None else {"result_chars": result_chars}),
    }


def shrunk_record(completed: Completed, *, scope: str, now: float) -> JsonObject:
    """One line of the journal for a result that gave way to others of its message."""
    return {
        "time": rfc3339(now),
        "scope": scope,
        "call": completed.executed.permitted.reviewed.checked.call.id,
        "event": "result_shrunk",
        "replaced": [each.record() for each in completed.replaced],
    }


def passage_record(
    id: str,
    method: str,
    server: str,
    said: JsonObject,
    outcome: JsonObject | ProtocolError | Unfinished,
    *,
    scope: str,
    started: float,
    seconds: float,
) -> JsonObject:
    """One line of the journal for a request that is no call: a prompt got, a resource read."""
    ended: JsonObject = {"outcome": "completed"}
    if isinstance(outcome, ProtocolError):
        ended = {
            "outcome": "protocol_error",
            "code": outcome.code,
            "message": _told(outcome.message),
        }
    elif isinstance(outcome, Unfinished):
        ended = {"outcome": "suspended", "asks": [_told(key) for key in outcome.input_requests]}
    return {
        "time": rfc3339(started),
        "scope": scope,
        "call": id,
        "tool": redact_text(f"mcp__{server}", _LONGEST_NAME),
        "name": method,
        "arguments": redact(said, _LONGEST_TEXT, _MOST_TEXT),
        **ended,
        "seconds": round(seconds, 6),
    }


def rfc3339(started: float) -> str:
    return datetime.fromtimestamp(started, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _ending(call: ToolCall, outcome: Outcome) -> JsonObject:
    match outcome:
        case Completed():
            return _completed(call, outcome)
        case Refusal(by, message):
            return {"outcome": "refused", "by": by.value, "message": _told(message)}
        case Suspended(input_requests, _):
            # The state is sealed and works like a key: it is never written down.
            return {"outcome": "suspended", "asks": [_told(key) for key in input_requests]}
        case ProtocolError(code, message, _):
            return {"outcome": "protocol_error", "code": code, "message": _told(message)}
        case Cancelled(reason, message):
            return {"outcome": "cancelled", "reason": reason.value, "message": _told(message)}
        case _:
            assert_never(outcome)


def _completed(call: ToolCall, completed: Completed) -> JsonObject:
    """`ran_with` only where a hook, an approver or the tool itself changed the arguments."""
    ending: JsonObject = {
        "outcome": "error" if completed.wire.get("isError") is True else "completed"
    }
    approved = completed.executed.permitted.approved
    if approved is not None:
        ending["approved"] = {"by": approved.by, "extent": approved.extent.value}
    ran_with = completed.executed.permitted.arguments
    if ran_with != call.arguments:
        ending["ran_with"] = redact(ran_with, _LONGEST_TEXT, _MOST_TEXT)
    if activated := _activated(completed):
        ending[ACTIVATED] = activated
    if completed.replaced:
        ending["replaced"] = [each.record() for each in completed.replaced]
    return ending


def _activated(completed: Completed) -> list[Json]:
    changes = completed.executed.result.changes
    return [n for change in changes if isinstance(change, ToolsActivated) for n in change.tools]


def _decided(decision: Decision) -> JsonObject:
    return {
        "effect": decision.effect.name.lower(),
        "tier": decision.by.tier.name.lower(),
        "reason": _told(decision.by.reason),
        "origin": _told(str(decision.by.origin)),
    }


def _told(message: str) -> str:
    return redact_text(message, _LONGEST_TEXT)


def hook_entry(record: HookRecord, *, scope: str, call: str | None, now: float) -> JsonObject:
    """One line of the journal, secrets redacted. `now` is in seconds since the epoch."""
    return {
        "time": rfc3339(now),
        "scope": scope,
        **({} if call is None else {"call": call}),
        "event": record.event.value,
        "hook": redact_text(record.hook, _LONGEST_NAME),
        "details": redact(record.details, _LONGEST_TEXT, _MOST_TEXT),
    }
