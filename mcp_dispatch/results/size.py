"""The size of a tool result in characters, and the parts of it that count."""

import json

import msgspec

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.media import BlockMedia, extract_media

MAX_IMAGE_BYTES = 3_750_000
"""The largest image that model APIs accept: five million characters of base64."""


def measure_result(wire: JsonObject) -> int:
    """Return the characters of text, embedded text, links and structured content.

    Images and blobs count as nothing here: they have limits of their own.
    """
    size = sum(map(measure_block, extract_blocks(wire)))
    if wire.get("structuredContent") is not None:
        size += len(as_json(wire["structuredContent"]))
    return size


def measure_block(block: Json) -> int:
    text = extract_text(block)
    if text is not None:
        return len(text)
    return 0 if extract_media(block) is not None else len(as_json(block))


def needs_disk(wire: JsonObject, limit: int | None, max_image_bytes: int = MAX_IMAGE_BYTES) -> bool:
    """Return whether a part of the result is too large to be delivered inline."""
    if limit is not None and measure_result(wire) > limit:
        return True
    # A text block carries no media.
    blocks = (block for block in extract_blocks(wire) if not _is_text_block(block))
    found = map(extract_media, blocks)
    return any(media is not None and is_too_large(media, limit, max_image_bytes) for media in found)


def is_too_large(media: BlockMedia, limit: int | None, max_image_bytes: int) -> bool:
    """A model sees an image as such; other media reach it as characters, if at all."""
    if media.is_image:
        return media.size > max_image_bytes
    return limit is not None and len(media.data) > limit


def has_no_output(wire: JsonObject) -> bool:
    """Return whether the result has neither structured content nor a block that is not blank."""
    texts = [extract_text(block) for block in extract_blocks(wire)]
    return wire.get("structuredContent") is None and all(
        text is not None and not text.strip() for text in texts
    )


def extract_blocks(wire: JsonObject) -> list[Json]:
    """Return the content blocks; empty if an upstream sent something else as `content`."""
    content = wire.get("content")
    return content if isinstance(content, list) else []


def extract_text(block: Json) -> str | None:
    """Return the text of a text block or of an embedded resource; None for other blocks."""
    if not isinstance(block, dict):
        return None
    if block.get("type") == "resource":
        block = block.get("resource")
    elif block.get("type") != "text":
        return None
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else None


def _is_text_block(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "text"


def as_indented_json(value: Json) -> str:
    """Return JSON in short lines, for a file that is searched and read page by page."""
    compact = as_json(value)
    try:
        return msgspec.json.format(compact, indent=1)
    except (msgspec.MsgspecError, UnicodeEncodeError):  # lone surrogates, NaN
        return compact


def as_json(value: Json) -> str:
    """Return compact JSON as a client would show it, with characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
