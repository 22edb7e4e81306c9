"""Content blocks of the Anthropic Messages API: `tool_use` in, `tool_result` out."""

import json
from collections.abc import Mapping
from typing import Any, cast

from mcp_dispatch.blocks import (
    MediaBlock,
    MediaSource,
    TextBlock,
    ToolDefinition,
    ToolResultBlock,
)
from mcp_dispatch.model.calls import Completed, Outcome
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import (
    Cancelled,
    ProtocolError,
    Refusal,
    Suspended,
    format_cancellation,
    format_error,
)

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""The image types that the API accepts."""

_PDF_TYPE = "application/pdf"


def is_tool_use(block: Mapping[str, object]) -> bool:
    """Return whether the block asks for a call. The stop reason of its message does not matter."""
    return block.get("type") == "tool_use"


def to_definition_block(definition: JsonObject) -> ToolDefinition:
    """Convert a `tools/list` entry to the tool format of the API."""
    name, description = str(definition["name"]), definition.get("description")
    schema = cast("dict[str, Any]", definition["inputSchema"])
    if not isinstance(description, str):
        return {"name": name, "input_schema": schema}
    return {"name": name, "description": description, "input_schema": schema}


def to_result_block(tool_use_id: str, tool: str, outcome: Outcome) -> ToolResultBlock:
    """Convert any outcome to a result, because the API requires a result for every call."""
    content, is_error = _render_content(tool, outcome)
    block: ToolResultBlock = {
        "type": "tool_result",
        "tool_use_id": tool_use_id,
        "content": content,
    }
    return {**block, "is_error": True} if is_error else block


def render_as_text(tool: str, outcome: Outcome) -> tuple[str, bool]:
    """Return the outcome as text and whether it is an error. Other content becomes a line that
    describes it.
    """
    blocks, failed = _render_content(tool, outcome, text_only=True)
    return "\n".join(block["text"] for block in blocks if block["type"] == "text"), failed


def _render_content(
    tool: str, outcome: Outcome, *, text_only: bool = False
) -> tuple[list[TextBlock | MediaBlock], bool]:
    match outcome:
        case Completed():
            failed = outcome.wire.get("isError") is True
            return _convert_blocks(outcome.wire, text_only=text_only or failed), failed
        case Refusal():
            return [_to_text_block(format_error(outcome.message))], True
        case Cancelled():
            return [_to_text_block(format_cancellation(outcome))], True
        case ProtocolError():
            message = f"{tool} answered with the error {outcome.code}: {outcome.message}"
            return [_to_text_block(format_error(message))], True
        case Suspended():
            message = f"{tool} wants to ask something first, and nobody here can be asked"
            return [_to_text_block(format_error(f"{message}; it did not run."))], True


def _convert_blocks(wire: JsonObject, *, text_only: bool) -> list[TextBlock | MediaBlock]:
    content = wire.get("content")
    blocks = content if isinstance(content, list) else []
    # The API rejects empty text, and any content but text in an error.
    converted = [_convert_block(block, text_only) for block in blocks if isinstance(block, dict)]
    kept = [block for block in converted if block.get("text") != ""]
    structure = wire.get("structuredContent")
    if structure is not None and not any(block["type"] == "text" for block in kept):
        kept.append(_to_text_block(json.dumps(structure, ensure_ascii=False)))
    return kept


def _convert_block(block: JsonObject, text_only: bool) -> TextBlock | MediaBlock:
    match block.get("type"):
        case "text":
            return _to_text_block(_read_string(block, "text"))
        case "resource_link":
            return _to_text_block(_format_link(block))
        case "resource":
            resource = block.get("resource")
            return _convert_resource(resource if isinstance(resource, dict) else {}, text_only)
        case "image" | "audio":
            media_type, data = _read_string(block, "mimeType"), _read_string(block, "data")
            return _convert_media(media_type, data, str(block["type"]), text_only)
        case other:
            return _to_text_block(f"[Content of the type {other!r} is not shown]")


def _convert_resource(resource: JsonObject, text_only: bool) -> TextBlock | MediaBlock:
    if isinstance(resource.get("text"), str):
        return _to_text_block(_read_string(resource, "text"))
    media_type, blob = _read_string(resource, "mimeType"), _read_string(resource, "blob")
    return _convert_media(media_type, blob, f"resource {_read_string(resource, 'uri')}", text_only)


def _convert_media(
    media_type: str, data: str, label: str, text_only: bool
) -> TextBlock | MediaBlock:
    source: MediaSource = {"type": "base64", "media_type": media_type, "data": data}
    if data and not text_only and media_type in IMAGE_TYPES:
        return {"type": "image", "source": source}
    if data and not text_only and media_type == _PDF_TYPE:
        return {"type": "document", "source": source}
    size = len(data) * 3 // 4
    return _to_text_block(
        f"[{label.capitalize()}, {media_type or 'type unknown'}, {size} bytes: not shown]"
    )


def _format_link(block: JsonObject) -> str:
    description = _read_string(block, "description")
    suffix = f" ({description})" if description else ""
    return f"[Resource link: {_read_string(block, 'name')}] {_read_string(block, 'uri')}{suffix}"


def _read_string(block: JsonObject, key: str) -> str:
    value = block.get(key)
    return value if isinstance(value, str) else ""


def _to_text_block(text: str) -> TextBlock:
    return {"type": "text", "text": text}
