"""What a hook is told on stdin: one JSON document, in Claude Code's words."""

import json
from collections.abc import Sequence

from mcp_dispatch.hooks.events import Event
from mcp_dispatch.model.calls import BatchedCall, CheckedCall, Executed
from mcp_dispatch.model.hook_context import Circumstances
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import cut_in_the_middle
from mcp_dispatch.model.tools import ToolResult

# Our name of a field, and the protocol's.
_OF_QUESTION = {
    "mode": "mode",
    "url": "url",
    "elicitation_id": "elicitationId",
    "requested_schema": "requestedSchema",
}


class Untellable(Exception):
    """The call cannot be written as JSON, so no hook can be told of it."""


def before_document(checked: CheckedCall, circumstances: Circumstances) -> bytes:
    return _encoded(_of_call(Event.PRE_TOOL_USE, checked, circumstances))


def after_document(event: Event, executed: Executed, circumstances: Circumstances) -> bytes:
    document = _of_call(event, executed.permitted.reviewed.checked, circumstances)
    if event is Event.POST_TOOL_USE_FAILURE:
        document["error"] = _error(executed.result)
    else:
        document["tool_response"] = executed.result.response
    document["duration_ms"] = round(executed.seconds * 1000)
    return _encoded(document)


def request_document(checked: CheckedCall, circumstances: Circumstances) -> bytes:
    document = _of_call(Event.PERMISSION_REQUEST, checked, circumstances)
    del document["tool_use_id"]
    return _encoded(document)


def denied_document(checked: CheckedCall, reason: str, circumstances: Circumstances) -> bytes:
    document = _of_call(Event.PERMISSION_DENIED, checked, circumstances)
    return _encoded({**document, "reason": reason})


def batch_document(calls: Sequence[BatchedCall], circumstances: Circumstances) -> bytes:
    told: list[Json] = [
        {
            "tool_name": call.tool,
            "tool_input": call.arguments,
            "tool_use_id": call.tool_use_id,
            "tool_response": call.response,
        }
        for call in calls
    ]
    return _encoded({**_common(Event.POST_TOOL_BATCH, circumstances), "tool_calls": told})


def session_document(event: Event, key: str, value: str, circumstances: Circumstances) -> bytes:
    return _encoded({**_common(event, circumstances), key: value})


def question_document(server: str, params: JsonObject, circumstances: Circumstances) -> bytes:
    document = _common(Event.ELICITATION, circumstances)
    asked: JsonObject = {"mcp_server_name": server, "message": params.get("message", "")}
    return _encoded({**document, **asked, **_given(params, *_OF_QUESTION)})


def reply_document(
    server: str, params: JsonObject, answer: JsonObject, circumstances: Circumstances
) -> bytes:
    document = _common(Event.ELICITATION_RESULT, circumstances)
    replied: JsonObject = {"mcp_server_name": server, "action": answer.get("action")}
    if "content" in answer:
        replied["content"] = answer["content"]
    return _encoded({**document, **replied, **_given(params, "mode", "elicitation_id")})


def _given(params: JsonObject, *fields: str) -> JsonObject:
    return {field: params[_OF_QUESTION[field]] for field in fields if _OF_QUESTION[field] in params}


def _common(event: Event, circumstances: Circumstances) -> JsonObject:
    return {
        "session_id": circumstances.session_id,
        "transcript_path": str(circumstances.transcript_path),
        "cwd": str(circumstances.cwd),
        "permission_mode": circumstances.permission_mode,
        "hook_event_name": event.value,
    }


def _of_call(event: Event, checked: CheckedCall, circumstances: Circumstances) -> JsonObject:
    return {
        **_common(event, circumstances),
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
