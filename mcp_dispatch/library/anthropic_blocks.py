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
    cancelled_text,
    error_text,
)

IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""What the API takes."""

_PDF = "application/pdf"


def is_tool_use(block: Mapping[str, object]) -> bool:
    """A message asks for tools where it has such a block, whatever its stop reason says."""
    return block.get("type") == "tool_use"


def definition_block(definition: JsonObject) -> JsonObject:
    """A `tools/list` entry as the API wants a tool."""
    described = definition.get("description")
    return {
        "name": definition["name"],
        **({"description": described} if isinstance(described, str) else {}),
        "input_schema": definition["inputSchema"],
    }


def result_block(tool_use_id: str, tool: str, outcome: Outcome) -> JsonObject:
    """Every outcome is a result: the model must hear of each call it made."""
    content, is_error = _content(tool, outcome)
    block: JsonObject = {
        "type": "tool_result",
        "tool_use_id": tool_use_id,
        "content": cast("list[Json]", content),
    }
    return {**block, "is_error": True} if is_error else block


def told(tool: str, outcome: Outcome) -> tuple[str, bool]:
    """Every outcome as text, of what is no text a line that says so; and whether it is an error."""
    blocks, failed = _content(tool, outcome, text_only=True)
    return "\n".join(_string(block, "text") for block in blocks), failed


def _content(
    tool: str, outcome: Outcome, *, text_only: bool = False
) -> tuple[list[JsonObject], bool]:
    match outcome:
        case Completed():
            failed = outcome.wire.get("isError") is True
            return _converted(outcome.wire, text_only=text_only or failed), failed
        case Refusal():
            return [_text(error_text(outcome.message))], True
        case Cancelled():
            return [_text(cancelled_text(outcome))], True
        case ProtocolError():
            told = f"{tool} answered with the error {outcome.code}: {outcome.message}"
            return [_text(error_text(told))], True
        case Suspended():
            told = f"{tool} wants to ask something first, and nobody here can be asked"
            return [_text(error_text(f"{told}; it did not run."))], True


def _converted(wire: JsonObject, *, text_only: bool) -> list[JsonObject]:
    content = wire.get("content")
    blocks = content if isinstance(content, list) else []
    # The API refuses empty text, and anything but text in an error.
    made = [_block(block, text_only) for block in blocks if isinstance(block, dict)]
    kept = [block for block in made if block.get("text") != ""]
    structure = wire.get("structuredContent")
    if structure is not None and not any(block["type"] == "text" for block in kept):
        kept.append(_text(json.dumps(structure, ensure_ascii=False)))
    return kept


def _block(block: JsonObject, text_only: bool) -> JsonObject:
    match block.get("type"):
        case "text":
            return _text(_string(block, "text"))
        case "resource_link":
            return _text(_link(block))
        case "resource":
            resource = block.get("resource")
            return _embedded(resource if isinstance(resource, dict) else {}, text_only)
        case "image" | "audio":
            media_type = _string(block, "mimeType")
            return _media(media_type, _string(block, "data"), str(block["type"]), text_only)
        case other:
            return _text(f"[Content of the type {other!r} is not shown]")


def _embedded(resource: JsonObject, text_only: bool) -> JsonObject:
    if isinstance(resource.get("text"), str):
        return _text(_string(resource, "text"))
    named = f"resource {_string(resource, 'uri')}"
    return _media(_string(resource, "mimeType"), _string(resource, "blob"), named, text_only)


def _media(media_type: str, data: str, what: str, text_only: bool) -> JsonObject:
    source: JsonObject = {"type": "base64", "media_type": media_type, "data": data}
    if data and not text_only and media_type in IMAGES:
        return {"type": "image", "source": source}
    if data and not text_only and media_type == _PDF:
        return {"type": "document", "source": source}
    size = len(data) * 3 // 4
    return _text(f"[{what.capitalize()}, {media_type or 'type unknown'}, {size} bytes: not shown]")


def _link(block: JsonObject) -> str:
    described = _string(block, "description")
    told = f" ({described})" if described else ""
    return f"[Resource link: {_string(block, 'name')}] {_string(block, 'uri')}{told}"


def _string(block: JsonObject, key: str) -> str:
    value = block.get(key)
    return value if isinstance(value, str) else ""


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}
