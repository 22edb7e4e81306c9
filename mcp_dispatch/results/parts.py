"""What a result consists of, as far as one part of it can be replaced without the others."""

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

    `shown` is what it costs the model, in characters; a structure has no blocks.
    """

    kind: PartKind
    block_indexes: tuple[int, ...]
    text: str
    shown_chars: int


def split_into_parts(original: JsonObject, shown: JsonObject) -> list[ContentPart]:
    """`shown` is the result as it would be delivered, `original` as it came.

    A structure that a text block repeats, as most SDKs make it, goes with the text and is no part
    of its own.
    """
    before, after = extract_blocks(original), extract_blocks(shown)
    numbers = range(len(before))
    text = tuple(
        n for n in numbers if extract_text(before[n]) is not None and not _is_embedded(before[n])
    )
    embedded = [
        n for n in numbers if extract_text(before[n]) is not None and _is_embedded(before[n])
    ]
    other = tuple(
        n for n in numbers if extract_text(before[n]) is None and extract_media(before[n]) is None
    )
    parts = [
        _build_part(
            PartKind.TEXT, text, "\n".join(extract_text(before[n]) or "" for n in text), after
        ),
        *(
            _build_part(PartKind.EMBEDDED, (n,), extract_text(before[n]) or "", after)
            for n in embedded
        ),
        _build_part(PartKind.OTHER, other, "\n".join(as_json(before[n]) for n in other), after),
    ]
    structure = original.get("structuredContent")
    if structure is not None:
        said = as_json(structure)
        if contains_structure([before[n] for n in text], structure):
            parts[0] = replace(parts[0], shown_chars=parts[0].shown_chars + len(said))
        else:
            parts.append(
                ContentPart(PartKind.STRUCTURE, (), as_indented_json(structure), len(said))
            )
    return [part for part in parts if part.text]


def contains_structure(blocks: list[Json], structure: Json) -> bool:
    """Whether one of the blocks says the same as the structure."""
    return any(_matches_structure(extract_text(block) or "", structure) for block in blocks)


def select_largest(parts: list[ContentPart], limit: int) -> Iterator[ContentPart]:
    """The largest parts, until the others fit."""
    left = sum(part.shown_chars for part in parts)
    for part in sorted(parts, key=lambda part: part.shown_chars, reverse=True):
        if left <= limit:
            return
        left -= part.shown_chars
        yield part


def _build_part(
    kind: PartKind, block_indexes: tuple[int, ...], text: str, shown: list[Json]
) -> ContentPart:
    return ContentPart(
        kind, block_indexes, text, sum(measure_block(shown[n]) for n in block_indexes)
    )


def _is_embedded(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "resource"


def _matches_structure(text: str, structure: Json) -> bool:
    # To parse much text again only to find that it could be kept once costs more than keeping it.
    if len(text) > _MAX_COMPARED_CHARS or not text.lstrip().startswith(("{", "[")):
        return False
    try:
        return json.loads(text) == structure
    except (ValueError, RecursionError):
        return False
