"""How much of a result reaches the model, in characters."""

import json

import msgspec

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.media import extract_media


def measure_result(wire: JsonObject) -> int:
    """Characters of text, embedded text, links and structured content; images and blobs are
    measured by themselves."""
    size = sum(map(measure_block, extract_blocks(wire)))
    if wire.get("structuredContent") is not None:
        size += len(as_json(wire["structuredContent"]))
    return size


def measure_block(block: Json) -> int:
    text = extract_text(block)
    if text is not None:
        return len(text)
    return 0 if extract_media(block) is not None else len(as_json(block))


def extract_blocks(wire: JsonObject) -> list[Json]:
    """The content blocks; an upstream may have sent anything under that name."""
    content = wire.get("content")
    return content if isinstance(content, list) else []


def extract_text(block: Json) -> str | None:
    """The text a block shows: its own, or that of the resource it embeds."""
    if not isinstance(block, dict):
        return None
    if block.get("type") == "resource":
        block = block.get("resource")
    elif block.get("type") != "text":
        return None
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else None


def as_indented_json(value: Json) -> str:
    """The same JSON in short lines, for a file that is read page by page and searched."""
    compact = as_json(value)
    try:
        return msgspec.json.format(compact, indent=1)
    except (msgspec.MsgspecError, UnicodeEncodeError):  # lone surrogates, NaN
        return compact


def as_json(value: Json) -> str:
    """The compact JSON a client would show, characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
