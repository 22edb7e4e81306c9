"""Content blocks of the Anthropic Messages API: `tool_use` in, `tool_result` out."""

import json
from collections.abc import Mapping
from typing import cast

from mcp_dispatch.model.calls import Completed, Outcome
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import (
    Cancelled,
    ProtocolError,
    Refusal,
    Suspended,
    format_cancellation,
    format_error,
)

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""What the API takes."""

_PDF_TYPE = "application/pdf"


def is_tool_use(block: Mapping[str, object]) -> bool:
    """A message asks for tools where it has such a block, whatever its stop reason says."""
    return block.get("type") == "tool_use"


def to_definition_block(definition: JsonObject) -> JsonObject:
    """A `tools/list` entry as the API wants a tool."""
    described = definition.get("description")
    return {
        "name": definition["name"],
        **({"description": described} if isinstance(described, str) else {}),
        "input_schema": definition["inputSchema"],
    }


def to_result_block(tool_use_id: str, tool: str, outcome: Outcome) -> JsonObject:
    """Every outcome is a result: the model must hear of each call it made."""
    content, is_error = _render_content(tool, outcome)
    block: JsonObject = {
        "type": "tool_result",
        "tool_use_id": tool_use_id,
        "content": cast("list[Json]", content),
    }
    return {**block, "is_error": True} if is_error else block


def render_as_text(tool: str, outcome: Outcome) -> tuple[str, bool]:
    """Every outcome as text, of what is no text a line that says so; and whether it is an error."""
    blocks, failed = _render_content(tool, outcome, text_only=True)
    return "\n".join(_read_string(block, "text") for block in blocks), failed


def _render_content(
    tool: str, outcome: Outcome, *, text_only: bool = False
) -> tuple[list[JsonObject], bool]:
    match outcome:
        case Completed():
            failed = outcome.wire.get("isError") is True
            return _convert_blocks(outcome.wire, text_only=text_only or failed), failed
        case Refusal():
            return [_to_text_block(format_error(outcome.message))], True
        case Cancelled():
            return [_to_text_block(format_cancellation(outcome))], True
        case ProtocolError():
            told = f"{tool} answered with the error {outcome.code}: {outcome.message}"
            return [_to_text_block(format_error(told))], True
        case Suspended():
            told = f"{tool} wants to ask something first, and nobody here can be asked"
            return [_to_text_block(format_error(f"{told}; it did not run."))], True


def _convert_blocks(wire: JsonObject, *, text_only: bool) -> list[JsonObject]:
    content = wire.get("content")
    blocks = content if isinstance(content, list) else []
    # The API refuses empty text, and anything but text in an error.
    made = [_convert_block(block, text_only) for block in blocks if isinstance(block, dict)]
    kept = [block for block in made if block.get("text") != ""]
    structure = wire.get("structuredContent")
    if structure is not None and not any(block["type"] == "text" for block in kept):
        kept.append(_to_text_block(json.dumps(structure, ensure_ascii=False)))
    return kept


def _convert_block(block: JsonObject, text_only: bool) -> JsonObject:
    match block.get("type"):
        case "text":
            return _to_text_block(_read_string(block, "text"))
        case "resource_link":
            return _to_text_block(_format_link(block))
        case "resource":
            resource = block.get("resource")
            return _convert_resource(resource if isinstance(resource, dict) else {}, text_only)
        case "image" | "audio":
            media_type = _read_string(block, "mimeType")
            return _convert_media(
                media_type, _read_string(block, "data"), str(block["type"]), text_only
            )
        case other:
            return _to_text_block(f"[Content of the type {other!r} is not shown]")


def _convert_resource(resource: JsonObject, text_only: bool) -> JsonObject:
    if isinstance(resource.get("text"), str):
        return _to_text_block(_read_string(resource, "text"))
    named = f"resource {_read_string(resource, 'uri')}"
    return _convert_media(
        _read_string(resource, "mimeType"), _read_string(resource, "blob"), named, text_only
    )


def _convert_media(media_type: str, data: str, label: str, text_only: bool) -> JsonObject:
    source: JsonObject = {"type": "base64", "media_type": media_type, "data": data}
    if data and not text_only and media_type in IMAGE_TYPES:
        return {"type": "image", "source": source}
    if data and not text_only and media_type == _PDF_TYPE:
        return {"type": "document", "source": source}
    size = len(data) * 3 // 4
    return _to_text_block(
        f"[{label.capitalize()}, {media_type or 'type unknown'}, {size} bytes: not shown]"
    )


def _format_link(block: JsonObject) -> str:
    described = _read_string(block, "description")
    told = f" ({described})" if described else ""
    return f"[Resource link: {_read_string(block, 'name')}] {_read_string(block, 'uri')}{told}"


def _read_string(block: JsonObject, key: str) -> str:
    value = block.get(key)
    return value if isinstance(value, str) else ""


def _to_text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}
