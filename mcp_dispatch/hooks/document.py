"""What a hook is told on stdin: one JSON document, in Claude Code's words."""

import json

from mcp_dispatch.hooks.events import Event
from mcp_dispatch.hooks.text import cut_in_the_middle
from mcp_dispatch.model.calls import CheckedCall, Executed
from mcp_dispatch.model.circumstances import Circumstances
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import ToolResult


class Untellable(Exception):
    """The call cannot be written as JSON, so no hook can be told of it."""


def before_document(checked: CheckedCall, circumstances: Circumstances) -> bytes:
    return _encoded(_common(Event.PRE_TOOL_USE, checked, circumstances))


def after_document(event: Event, executed: Executed, circumstances: Circumstances) -> bytes:
    document = _common(event, executed.permitted.reviewed.checked, circumstances)
    if event is Event.POST_TOOL_USE_FAILURE:
        document["error"] = _error(executed.result)
    else:
        document["tool_response"] = executed.result.response
    document["duration_ms"] = round(executed.seconds * 1000)
    return _encoded(document)


def _common(event: Event, checked: CheckedCall, circumstances: Circumstances) -> JsonObject:
    return {
        "session_id": circumstances.session_id,
        "transcript_path": str(circumstances.transcript_path),
        "cwd": str(circumstances.cwd),
        "permission_mode": circumstances.permission_mode,
        "hook_event_name": event.value,
        "tool_name": checked.tool.rule_name,
        "tool_input": checked.arguments,
        "tool_use_id": checked.call.tool_use_id,
    }


def _error(result: ToolResult) -> str:
    """The text of a failed result, without the tags that mark it for the model."""
    content = result.wire.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    text = "\n".join(text for text in texts if isinstance(text, str))
    bare = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    return cut_in_the_middle(bare)


def _encoded(document: JsonObject) -> bytes:
    """Compact, as scripts that search it as text expect; the newline is for a shell's `read`."""
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return f"{text}\n".encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise Untellable(f"the call cannot be written as JSON for its hooks: {error}") from error
