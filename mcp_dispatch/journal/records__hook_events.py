"""The record of what a hook did."""

from mcp_dispatch.journal.records import rfc3339
from mcp_dispatch.journal.redact.redact import redact, redact_text
from mcp_dispatch.model.hook_context import HookRecord
from mcp_dispatch.model.json import JsonObject

_LONGEST_TEXT = 2_000
_LONGEST_NAME = 256
_MOST_TEXT = 32_000


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
