"""Builds the hook input: one JSON document on stdin, with Claude Code's field names."""

import json
from collections.abc import Sequence

from mcp_dispatch.hooks.events import HookEventName
from mcp_dispatch.model.calls import BatchedCall, CheckedCall, Executed
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import truncate_middle
from mcp_dispatch.model.tools import ToolResult

# Field name in the hook input → name in the protocol.
_ELICITATION_PARAMS = {
    "mode": "mode",
    "url": "url",
    "elicitation_id": "elicitationId",
    "requested_schema": "requestedSchema",
}


class HookInputError(Exception):
    """The call cannot be written as JSON, so no hook can receive it."""


def build_pre_tool_use_input(checked: CheckedCall, context: HookContext) -> bytes:
    return _encode_document(_build_call_fields(HookEventName.PRE_TOOL_USE, checked, context))


def build_post_tool_use_input(
    event: HookEventName, executed: Executed, context: HookContext
) -> bytes:
    document = _build_call_fields(event, executed.permitted.reviewed.checked, context)
    if event is HookEventName.POST_TOOL_USE_FAILURE:
        document["error"] = _extract_error_text(executed.result)
    else:
        document["tool_response"] = executed.result.response
    document["duration_ms"] = round(executed.seconds * 1000)
    return _encode_document(document)


def build_permission_request_input(checked: CheckedCall, context: HookContext) -> bytes:
    document = _build_call_fields(HookEventName.PERMISSION_REQUEST, checked, context)
    del document["tool_use_id"]
    return _encode_document(document)


def build_permission_denied_input(checked: CheckedCall, reason: str, context: HookContext) -> bytes:
    document = _build_call_fields(HookEventName.PERMISSION_DENIED, checked, context)
    return _encode_document({**document, "reason": reason})


def build_post_tool_batch_input(calls: Sequence[BatchedCall], context: HookContext) -> bytes:
    told: list[Json] = [
        {
            "tool_name": call.tool,
            "tool_input": call.arguments,
            "tool_use_id": call.tool_use_id,
            "tool_response": call.response,
        }
        for call in calls
    ]
    return _encode_document(
        {**_build_common_fields(HookEventName.POST_TOOL_BATCH, context), "tool_calls": told}
    )


def build_session_input(event: HookEventName, key: str, value: str, context: HookContext) -> bytes:
    return _encode_document({**_build_common_fields(event, context), key: value})


def build_elicitation_input(server: str, params: JsonObject, context: HookContext) -> bytes:
    document = _build_common_fields(HookEventName.ELICITATION, context)
    asked: JsonObject = {"mcp_server_name": server, "message": params.get("message", "")}
    return _encode_document({**document, **asked, **_select_params(params, *_ELICITATION_PARAMS)})


def build_elicitation_result_input(
    server: str, params: JsonObject, answer: JsonObject, context: HookContext
) -> bytes:
    document = _build_common_fields(HookEventName.ELICITATION_RESULT, context)
    replied: JsonObject = {"mcp_server_name": server, "action": answer.get("action")}
    if "content" in answer:
        replied["content"] = answer["content"]
    return _encode_document(
        {**document, **replied, **_select_params(params, "mode", "elicitation_id")}
    )


def _select_params(params: JsonObject, *fields: str) -> JsonObject:
    return {
        field: params[_ELICITATION_PARAMS[field]]
        for field in fields
        if _ELICITATION_PARAMS[field] in params
    }


def _build_common_fields(event: HookEventName, context: HookContext) -> JsonObject:
    return {
        "session_id": context.session_id,
        "transcript_path": str(context.transcript_path),
        "cwd": str(context.cwd),
        "permission_mode": context.permission_mode,
        "hook_event_name": event.value,
    }


def _build_call_fields(
    event: HookEventName, checked: CheckedCall, context: HookContext
) -> JsonObject:
    return {
        **_build_common_fields(event, context),
        "tool_name": checked.tool.rule_name,
        "tool_input": checked.arguments,
        "tool_use_id": checked.call.tool_use_id,
    }


def _extract_error_text(result: ToolResult) -> str:
    """Return the text of a failed result without the tags that mark it for the model."""
    content = result.wire.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    text = "\n".join(text for text in texts if isinstance(text, str))
    bare = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    return truncate_middle(bare)


def _encode_document(document: JsonObject) -> bytes:
    """Return compact JSON, because scripts search it as text, with the newline that a shell's
    `read` needs."""
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return f"{text}\n".encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise HookInputError(
            f"the call cannot be written as JSON for its hooks: {error}"
        ) from error
