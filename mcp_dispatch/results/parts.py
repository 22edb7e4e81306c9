"""What a result consists of, as far as one part of it can be replaced without the others."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.media import media_of
from mcp_dispatch.results.size import as_json, as_lines, block_size, blocks_of, text_of

_MOST_COMPARED = 2_000_000


class Kind(Enum):
    TEXT = "text"
    EMBEDDED = "embedded text"
    OTHER = "links and other blocks"
    STRUCTURE = "structure"


@dataclass(frozen=True, slots=True)
class Part:
    """All text blocks together, one embedded resource, everything else together, or the structure.

    `shown` is what it costs the model, in characters; a structure has no blocks.
    """

    kind: Kind
    blocks: tuple[int, ...]
    text: str
    shown: int


def parts_of(original: JsonObject, shown: JsonObject) -> list[Part]:
    """`shown` is the result as it would be delivered, `original` as it came.

    A structure that a text block repeats, as most SDKs make it, goes with the text and is no part
    of its own.
    """
    before, after = blocks_of(original), blocks_of(shown)
    numbers = range(len(before))
    text = tuple(n for n in numbers if text_of(before[n]) is not None and not _embeds(before[n]))
    embedded = [n for n in numbers if text_of(before[n]) is not None and _embeds(before[n])]
    other = tuple(n for n in numbers if text_of(before[n]) is None and media_of(before[n]) is None)
    parts = [
        _part(Kind.TEXT, text, "\n".join(text_of(before[n]) or "" for n in text), after),
        *(_part(Kind.EMBEDDED, (n,), text_of(before[n]) or "", after) for n in embedded),
        _part(Kind.OTHER, other, "\n".join(as_json(before[n]) for n in other), after),
    ]
    structure = original.get("structuredContent")
    if structure is not None:
        said = as_json(structure)
        if tells([before[n] for n in text], structure):
            parts[0] = replace(parts[0], shown=parts[0].shown + len(said))
        else:
            parts.append(Part(Kind.STRUCTURE, (), as_lines(structure), len(said)))
    return [part for part in parts if part.text]


def tells(blocks: list[Json], structure: Json) -> bool:
    """Whether one of the blocks says the same as the structure."""
    return any(_reads_as(text_of(block) or "", structure) for block in blocks)


def chosen(parts: list[Part], limit: int) -> Iterator[Part]:
    """The largest parts, until the others fit."""
    left = sum(part.shown for part in parts)
    for part in sorted(parts, key=lambda part: part.shown, reverse=True):
        if left <= limit:
            return
        left -= part.shown
        yield part


def _part(kind: Kind, blocks: tuple[int, ...], text: str, shown: list[Json]) -> Part:
    return Part(kind, blocks, text, sum(block_size(shown[n]) for n in blocks))


def _embeds(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "resource"


def _reads_as(text: str, structure: Json) -> bool:
    # To parse much text again only to find that it could be kept once costs more than keeping it.
    if len(text) > _MOST_COMPARED or not text.lstrip().startswith(("{", "[")):
        return False
    try:
        return json.loads(text) == structure
    except (ValueError, RecursionError):
        return False
