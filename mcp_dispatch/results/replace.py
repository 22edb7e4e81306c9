"""A result as it may be delivered: as it came, or with its large parts kept on disk."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.results.markers import cut, harmless_result, nothing_said, persisted, with_text
from mcp_dispatch.results.size import as_json, blocks_of, measure, text_of
from mcp_dispatch.results.store import CannotKeep, ResultStore

# About the length of `persisted(...)`: a shorter part would grow if it were replaced.
_STAND_IN_CHARS = 2_500


@dataclass(frozen=True, slots=True)
class Fitted:
    """The result to deliver. `files` are all files kept for it, `kept` the first of them."""

    wire: JsonObject
    files: tuple[str, ...] = ()

    @property
    def kept(self) -> str | None:
        return self.files[0] if self.files else None


def fit(
    wire: JsonObject,
    limit: int | None,
    store: ResultStore,
    tool_name: str,
    *,
    has_output_schema: bool = False,
    foreign: bool = False,
) -> Fitted:
    """The same `wire` where it fits and needs nothing; else the largest parts go to the store.

    `limit` is in characters, None for a tool that bounds itself. `foreign` text is made harmless
    where it imitates our markers; what is stored is always the original.

    A result that is changed for size goes without `structuredContent`, behind which a client
    would hide the reference, unless an output schema was advertised: clients refuse a result
    without it then, so it stays as it is, whatever its size.

    Blocks for the disk when the result is over the limit: call it from a worker thread then.
    """
    shown = harmless_result(wire) if foreign else wire
    if _says_nothing(shown):
        return Fitted(_with_placeholder(shown, tool_name))
    if limit is None or measure(shown) <= limit:
        return Fitted(shown)
    return _Shrinking(limit, store).shrink(wire, shown, keep_structure=has_output_schema)


def _says_nothing(wire: JsonObject) -> bool:
    texts = [text_of(block) for block in blocks_of(wire)]
    return wire.get("structuredContent") is None and all(
        text is not None and not text.strip() for text in texts
    )


def _with_placeholder(wire: JsonObject, tool_name: str) -> JsonObject:
    text = nothing_said(tool_name, failed=wire.get("isError") is True)
    return {**wire, "content": [{"type": "text", "text": text}]}


@dataclass(frozen=True, slots=True)
class _Part:
    """Text that is replaced as one: all text blocks together, or one embedded resource."""

    blocks: tuple[int, ...]
    text: str
    shown: int


class _Shrinking:
    """One result on its way to the store."""

    def __init__(self, limit: int, store: ResultStore) -> None:
        self._limit = limit
        self._store = store
        self._files: list[str] = []

    def shrink(self, original: JsonObject, shown: JsonObject, keep_structure: bool) -> Fitted:
        before = blocks_of(shown)
        content = self._with_stand_ins(blocks_of(original), before)
        structure = original.get("structuredContent")
        if structure is not None and not keep_structure:
            shown = {key: value for key, value in shown.items() if key != "structuredContent"}
            if not _mirrored(structure, blocks_of(original)):
                content = [*content, self._reference(structure)]
        if content is not before:
            shown = {**shown, "content": content}
        return Fitted(shown, tuple(self._files))

    def _with_stand_ins(self, original: list[Json], shown: list[Json]) -> list[Json]:
        large = list(_too_large(_parts(original, shown), self._limit))
        if not large:
            return shown
        stand_ins = {
            part.blocks[0]: with_text(original[part.blocks[0]], self._stand_in(part.text, ".txt"))
            for part in large
        }
        gone = {n for part in large for n in part.blocks[1:]}
        return [stand_ins.get(n, block) for n, block in enumerate(shown) if n not in gone]

    def _reference(self, structure: Json) -> Json:
        text = as_json(structure)
        if len(text) > _STAND_IN_CHARS:
            text = self._stand_in(text, ".json")
        return {"type": "text", "text": text}

    def _stand_in(self, text: str, suffix: str) -> str:
        try:
            kept = self._store.keep(text, suffix)
        except CannotKeep as problem:
            return cut(text, self._limit, str(problem))
        self._files.append(str(kept.path))
        return persisted(text, kept)


def _parts(original: list[Json], shown: list[Json]) -> list[_Part]:
    texts = [text_of(block) for block in original]
    lengths = [len(text_of(block) or "") for block in shown]
    readable = [n for n, text in enumerate(texts) if text is not None]
    plain = tuple(n for n in readable if not _embeds(original[n]))
    groups = [*([plain] if plain else []), *((n,) for n in readable if _embeds(original[n]))]
    return [
        _Part(group, "\n".join(texts[n] or "" for n in group), sum(lengths[n] for n in group))
        for group in groups
    ]


def _too_large(parts: list[_Part], limit: int) -> Iterator[_Part]:
    """The largest parts, until the others fit; none that its own stand-in would outgrow."""
    left = sum(part.shown for part in parts)
    for part in sorted(parts, key=lambda part: part.shown, reverse=True):
        if left <= limit or part.shown <= _STAND_IN_CHARS:
            return
        left -= part.shown
        yield part


def _embeds(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "resource"


def _mirrored(structure: Json, blocks: list[Json]) -> bool:
    """Whether a text block says the same as the structure, as most SDKs make it."""
    return any(_reads_as(text_of(block) or "", structure) for block in blocks)


def _reads_as(text: str, structure: Json) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        return json.loads(text) == structure
    except (ValueError, RecursionError):
        return False
