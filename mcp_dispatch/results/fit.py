"""A result as it may be delivered: as it came, or with its large parts kept on disk."""

import binascii
from dataclasses import dataclass

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Replacement, Why
from mcp_dispatch.results.markers import (
    cut,
    harmless_result,
    link,
    nothing_said,
    persisted,
    persisted_file,
    with_text,
)
from mcp_dispatch.results.media import Media, media_of
from mcp_dispatch.results.output_schema import reference, to_file
from mcp_dispatch.results.parts import Kind, Part, chosen, parts_of
from mcp_dispatch.results.preview import utf8
from mcp_dispatch.results.size import as_json, blocks_of, measure, text_of
from mcp_dispatch.results.store import CannotKeep, Kept, ResultStore

IMAGE_BYTES = 3_750_000
"""What model APIs take of one image: five million characters of base64."""

_LEAST_CUT = 2_000
_TEXT_BESIDE = "The text beside this structure was too large; the file has the whole of it."
_CONTENT_BESIDE = "Content beside this structure was replaced; it is not shown here."


@dataclass(frozen=True, slots=True)
class Fitted:
    """The result to deliver, and what of it was replaced."""

    wire: JsonObject
    replaced: tuple[Replacement, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(each.file for each in self.replaced if each.file is not None)


def fit(
    wire: JsonObject,
    limit: int | None,
    store: ResultStore,
    tool_name: str,
    *,
    has_output_schema: bool = False,
    foreign: bool = False,
    why: Why = Why.SIZE,
    image_bytes: int = IMAGE_BYTES,
) -> Fitted:
    """The same `wire` where it fits and needs nothing; else the largest parts go to the store.

    `limit` is in characters, None for a tool that bounds itself. `foreign` text is made harmless
    where it imitates our markers; what is stored is always the original.

    A result that is changed goes without `structuredContent`, behind which a client would hide
    the change, unless an output schema was advertised: that admits a reference in its place.

    Blocks for the disk when `needs_disk`: call it from a worker thread then.
    """
    shown = harmless_result(wire) if foreign else wire
    if _says_nothing(shown):
        return Fitted(_with_placeholder(shown, tool_name))
    if not needs_disk(shown, limit, image_bytes):
        return Fitted(shown)
    advertised = has_output_schema and wire.get("isError") is not True
    return _Fitting(limit, store, why, image_bytes).fit(wire, shown, advertised)


def needs_disk(wire: JsonObject, limit: int | None, image_bytes: int = IMAGE_BYTES) -> bool:
    if limit is not None and measure(wire) > limit:
        return True
    found = map(media_of, blocks_of(wire))
    return any(media is not None and _too_much(media, limit, image_bytes) for media in found)


def _too_much(media: Media, limit: int | None, image_bytes: int) -> bool:
    """An image is looked at; anything else reaches a model as so many characters, if at all."""
    if media.image:
        return media.size > image_bytes
    return limit is not None and len(media.data) > limit


def _says_nothing(wire: JsonObject) -> bool:
    texts = [text_of(block) for block in blocks_of(wire)]
    return wire.get("structuredContent") is None and all(
        text is not None and not text.strip() for text in texts
    )


def _with_placeholder(wire: JsonObject, tool_name: str) -> JsonObject:
    text = nothing_said(tool_name, failed=wire.get("isError") is True)
    return {**wire, "content": [{"type": "text", "text": text}]}


@dataclass(frozen=True, slots=True)
class _StandIn:
    """What is shown for a part, and, where it was kept, the file."""

    text: str
    shown: str
    kept: Kept | None

    def blocks(self, kind: Kind, original: Json = None) -> list[Json]:
        told = kind in (Kind.TEXT, Kind.EMBEDDED)
        shown: Json = with_text(original, self.shown) if told else _text(self.shown)
        return [shown] if self.kept is None else [shown, link(self.kept, _mime_type(kind))]


class _Fitting:
    """One result on its way to the store."""

    def __init__(self, limit: int | None, store: ResultStore, why: Why, image_bytes: int) -> None:
        self._limit = limit
        self._store = store
        self._why = why
        self._image_bytes = image_bytes
        self._replaced: list[Replacement] = []

    def fit(self, original: JsonObject, shown: JsonObject, advertised: bool) -> Fitted:
        blocks: list[list[Json]] = [[block] for block in blocks_of(shown)]
        self._decode_media(blocks_of(original), blocks)
        parts = parts_of(original, shown)
        stand_ins = self._shrink(parts, blocks_of(original), blocks)
        if not self._replaced:
            return Fitted(shown)
        content: list[Json] = [block for group in blocks for block in group]
        delivered: JsonObject = {**shown, "content": content}
        structure = original.get("structuredContent")
        if structure is not None:
            told = all(part.kind is not Kind.STRUCTURE for part in parts)
            about = _Structure(structure, told, stand_ins)
            delivered = about.advertised(delivered) if advertised else about.untold(delivered)
        return Fitted(delivered, tuple(self._replaced))

    def _decode_media(self, original: list[Json], blocks: list[list[Json]]) -> None:
        for number, block in enumerate(original):
            media = media_of(block)
            if media is not None and _too_much(media, self._limit, self._image_bytes):
                blocks[number] = self._decoded(media)

    def _decoded(self, media: Media) -> list[Json]:
        kind, what = media.mime_type, media.mime_type
        try:
            try:
                kept = self._store.keep(media.decoded(), media.suffix)
            except binascii.Error:
                kept, kind = self._store.keep(media.data, ".txt"), "base64 that cannot be decoded"
        except CannotKeep as problem:
            self._replaced.append(Replacement(Why.MEDIA, what, media.size, problem=str(problem)))
            return [_text(f"[Content of type {what}, too large to show and not kept: {problem}]")]
        self._replaced.append(Replacement(Why.MEDIA, what, kept.size, str(kept.path)))
        return [_text(persisted_file(kind, kept)), link(kept, what)]

    def _shrink(
        self, parts: list[Part], original: list[Json], blocks: list[list[Json]]
    ) -> dict[Kind, _StandIn]:
        """Replaces what is too large in `blocks`; of the structure it only makes the stand-in."""
        if self._limit is None:
            return {}
        large = [part for part in chosen(parts, self._limit) if self._shrinks(part)]
        made: dict[Kind, _StandIn] = {}
        for part in large:
            made[part.kind] = stand_in = self._stand_in(part, self._limit // len(large))
            for number in part.blocks:
                blocks[number] = []
            if part.blocks:
                first = part.blocks[0]
                blocks[first] = stand_in.blocks(part.kind, original[first])
        return made

    def _shrinks(self, part: Part) -> bool:
        """A part that is no larger than what would stand for it stays."""
        name = "0" * 32
        would_be = Kept(name, self._store.directory / f"{name}.json", len(part.text) * 4)
        stand_in = persisted(part.text, would_be)
        if part.kind is Kind.STRUCTURE:
            stand_in = max(stand_in, as_json(reference(to_file(would_be, part.text))), key=len)
        return part.shown > len(stand_in) + len(as_json(link(would_be, "text/plain")))

    def _stand_in(self, part: Part, room: int) -> _StandIn:
        try:
            suffix = ".json" if part.kind is Kind.STRUCTURE else ".txt"
            kept = self._store.keep(part.text, suffix)
        except CannotKeep as problem:
            size = len(utf8(part.text))
            self._replaced.append(
                Replacement(self._why, part.kind.value, size, problem=str(problem))
            )
            return _StandIn(part.text, cut(part.text, max(room, _LEAST_CUT), str(problem)), None)
        self._replaced.append(Replacement(self._why, part.kind.value, kept.size, str(kept.path)))
        return _StandIn(part.text, persisted(part.text, kept), kept)


@dataclass(frozen=True, slots=True)
class _Structure:
    """The structure of a result that was changed; `told` where the text says the same."""

    value: Json
    told: bool
    stand_ins: dict[Kind, _StandIn]

    def advertised(self, delivered: JsonObject) -> JsonObject:
        """The change is told inside the structure."""
        return {**delivered, "structuredContent": reference(self._fields())}

    def untold(self, delivered: JsonObject) -> JsonObject:
        """Without the structure, which no client asks for: its content is told as text."""
        without = {key: value for key, value in delivered.items() if key != "structuredContent"}
        if self.told:
            return without
        stand_in = self.stand_ins.get(Kind.STRUCTURE)
        said = [_text(as_json(self.value))] if stand_in is None else stand_in.blocks(Kind.STRUCTURE)
        return {**without, "content": [*blocks_of(without), *said]}

    def _fields(self) -> JsonObject:
        of_text = self.stand_ins.get(Kind.TEXT)
        whole = of_text if self.told else self.stand_ins.get(Kind.STRUCTURE)
        if whole is not None and whole.kept is not None:
            return to_file(whole.kept, whole.text)
        if whole is not None:
            return {"size": len(utf8(as_json(self.value))), "preview": whole.shown}
        if of_text is None or of_text.kept is None:
            return {"value": self.value, "notes": [_CONTENT_BESIDE]}
        kept = of_text.kept
        named: JsonObject = {"path": str(kept.path), "link": kept.uri, "size": kept.size}
        return {**named, "notes": [_TEXT_BESIDE], "value": self.value}


def _mime_type(kind: Kind) -> str:
    return "application/json" if kind is Kind.STRUCTURE else "text/plain"


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}
