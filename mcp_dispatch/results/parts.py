"""Splits a result into parts that can be replaced independently of each other."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.media import extract_media
from mcp_dispatch.results.size import (
    as_indented_json,
    as_json,
    extract_blocks,
    extract_text,
    measure_block,
)

_MAX_COMPARED_CHARS = 2_000_000


class PartKind(Enum):
    TEXT = "text"
    EMBEDDED = "embedded text"
    OTHER = "links and other blocks"
    STRUCTURE = "structure"


@dataclass(frozen=True, slots=True)
class ContentPart:
    """All text blocks together, one embedded resource, everything else together, or the structure.

    `shown_chars` counts the characters that reach the model. A structure has no blocks.
    """

    kind: PartKind
    block_indexes: tuple[int, ...]
    text: str
    shown_chars: int


def split_into_parts(original: JsonObject, shown: JsonObject) -> list[ContentPart]:
    """Split a result; `original` is the result as received, `shown` as it would be delivered.

    A structure that a text block repeats, as most SDKs send it, counts as a part of the text.
    """
    before, after = extract_blocks(original), extract_blocks(shown)
    texts: dict[int, str] = {}
    embedded: dict[int, str] = {}
    others: dict[int, str] = {}
    for index, block in enumerate(before):
        text = extract_text(block)
        if text is not None:
            (embedded if _is_embedded(block) else texts)[index] = text
        elif extract_media(block) is None:
            others[index] = as_json(block)
    parts = [
        _build_part(PartKind.TEXT, texts, after),
        *(_build_part(PartKind.EMBEDDED, {index: embedded[index]}, after) for index in embedded),
        _build_part(PartKind.OTHER, others, after),
    ]
    structure = original.get("structuredContent")
    if structure is not None:
        chars = len(as_json(structure))
        if contains_structure([before[index] for index in texts], structure):
            parts[0] = replace(parts[0], shown_chars=parts[0].shown_chars + chars)
        else:
            text = as_indented_json(structure)
            parts.append(ContentPart(PartKind.STRUCTURE, (), text, chars))
    return [part for part in parts if part.text]


def contains_structure(blocks: list[Json], structure: Json) -> bool:
    """Return whether the text of one of the blocks is JSON equal to the structure."""
    return any(_matches_structure(extract_text(block) or "", structure) for block in blocks)


def select_largest(parts: list[ContentPart], limit: int) -> Iterator[ContentPart]:
    """Yield the largest parts, until the others fit."""
    left = sum(part.shown_chars for part in parts)
    for part in sorted(parts, key=lambda part: part.shown_chars, reverse=True):
        if left <= limit:
            return
        left -= part.shown_chars
        yield part


def _build_part(kind: PartKind, texts: dict[int, str], shown: list[Json]) -> ContentPart:
    """Build a part of the blocks with the given indexes and texts."""
    chars = sum(measure_block(shown[index]) for index in texts)
    return ContentPart(kind, tuple(texts), "\n".join(texts.values()), chars)


def _is_embedded(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "resource"


def _matches_structure(text: str, structure: Json) -> bool:
    # Parsing a long text again costs more than storing the structure a second time.
    if len(text) > _MAX_COMPARED_CHARS or not text.lstrip().startswith(("{", "[")):
        return False
    try:
        return json.loads(text) == structure
    except (ValueError, RecursionError):
        return False
