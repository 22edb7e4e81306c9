"""A result as it may be delivered: as it came, or with its large parts kept on disk."""

import binascii
from dataclasses import dataclass

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Replacement, ReplacementReason
from mcp_dispatch.results.markers import (
    build_resource_link,
    cut_middle,
    describe_empty_output,
    escape_markers_in_result,
    render_persisted_file,
    render_persisted_text,
    with_text,
)
from mcp_dispatch.results.media import BlockMedia, extract_media
from mcp_dispatch.results.output_schema import build_file_fields, build_reference
from mcp_dispatch.results.parts import ContentPart, PartKind, select_largest, split_into_parts
from mcp_dispatch.results.preview import encode_utf8
from mcp_dispatch.results.size import as_json, extract_blocks, extract_text, measure_result
from mcp_dispatch.results.store import CannotStore, ResultStore, StoredResult

MAX_IMAGE_BYTES = 3_750_000
"""What model APIs take of one image: five million characters of base64."""

_MIN_CUT_CHARS = 2_000
_TEXT_REPLACED_NOTE = "The text beside this structure was too large; the file has the whole of it."
_CONTENT_REPLACED_NOTE = "Content beside this structure was replaced; it is not shown here."


@dataclass(frozen=True, slots=True)
class FittedResult:
    """The result to deliver, and what of it was replaced."""

    wire: JsonObject
    replacements: tuple[Replacement, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(each.file for each in self.replacements if each.file is not None)


def fit_result(
    wire: JsonObject,
    limit: int | None,
    store: ResultStore,
    tool_name: str,
    *,
    has_output_schema: bool = False,
    untrusted: bool = False,
    reason: ReplacementReason = ReplacementReason.SIZE,
    max_image_bytes: int = MAX_IMAGE_BYTES,
) -> FittedResult:
    """The same `wire` where it fits and needs nothing; else the largest parts go to the store.

    `limit` is in characters, None for a tool that bounds itself. `foreign` text is made harmless
    where it imitates our markers; what is stored is always the original.

    A result that is changed goes without `structuredContent`, behind which a client would hide
    the change, unless an output schema was advertised: that admits a reference in its place.

    Blocks for the disk when `needs_disk`: call it from a worker thread then.
    """
    shown = escape_markers_in_result(wire) if untrusted else wire
    if _has_no_output(shown):
        return FittedResult(_with_placeholder(shown, tool_name))
    if not needs_disk(shown, limit, max_image_bytes):
        return FittedResult(shown)
    advertised = has_output_schema and wire.get("isError") is not True
    return _ResultFitter(limit, store, reason, max_image_bytes).fit(wire, shown, advertised)


def needs_disk(wire: JsonObject, limit: int | None, max_image_bytes: int = MAX_IMAGE_BYTES) -> bool:
    if limit is not None and measure_result(wire) > limit:
        return True
    found = map(extract_media, extract_blocks(wire))
    return any(
        media is not None and _is_too_large(media, limit, max_image_bytes) for media in found
    )


def _is_too_large(media: BlockMedia, limit: int | None, max_image_bytes: int) -> bool:
    """An image is looked at; anything else reaches a model as so many characters, if at all."""
    if media.is_image:
        return media.size > max_image_bytes
    return limit is not None and len(media.data) > limit


def _has_no_output(wire: JsonObject) -> bool:
    texts = [extract_text(block) for block in extract_blocks(wire)]
    return wire.get("structuredContent") is None and all(
        text is not None and not text.strip() for text in texts
    )


def _with_placeholder(wire: JsonObject, tool_name: str) -> JsonObject:
    text = describe_empty_output(tool_name, failed=wire.get("isError") is True)
    return {**wire, "content": [{"type": "text", "text": text}]}


@dataclass(frozen=True, slots=True)
class _PartReplacement:
    """What is shown for a part, and, where it was kept, the file."""

    text: str
    shown_text: str
    stored: StoredResult | None

    def to_blocks(self, kind: PartKind, original: Json = None) -> list[Json]:
        told = kind in (PartKind.TEXT, PartKind.EMBEDDED)
        shown: Json = (
            with_text(original, self.shown_text) if told else _build_text_block(self.shown_text)
        )
        return (
            [shown]
            if self.stored is None
            else [shown, build_resource_link(self.stored, _choose_mime_type(kind))]
        )


class _ResultFitter:
    """One result on its way to the store."""

    def __init__(
        self, limit: int | None, store: ResultStore, reason: ReplacementReason, max_image_bytes: int
    ) -> None:
        self._limit = limit
        self._store = store
        self._reason = reason
        self._max_image_bytes = max_image_bytes
        self._replacements: list[Replacement] = []

    def fit(self, original: JsonObject, shown: JsonObject, has_output_schema: bool) -> FittedResult:
        blocks: list[list[Json]] = [[block] for block in extract_blocks(shown)]
        self._replace_large_media(extract_blocks(original), blocks)
        parts = split_into_parts(original, shown)
        stand_ins = self._replace_large_parts(parts, extract_blocks(original), blocks)
        if not self._replacements:
            return FittedResult(shown)
        content: list[Json] = [block for group in blocks for block in group]
        delivered: JsonObject = {**shown, "content": content}
        structure = original.get("structuredContent")
        if structure is not None:
            told = all(part.kind is not PartKind.STRUCTURE for part in parts)
            about = _StructuredContent(structure, told, stand_ins)
            delivered = (
                about.replace_by_reference(delivered)
                if has_output_schema
                else about.replace_by_text(delivered)
            )
        return FittedResult(delivered, tuple(self._replacements))

    def _replace_large_media(self, original: list[Json], blocks: list[list[Json]]) -> None:
        for number, block in enumerate(original):
            media = extract_media(block)
            if media is not None and _is_too_large(media, self._limit, self._max_image_bytes):
                blocks[number] = self._store_media(media)

    def _store_media(self, media: BlockMedia) -> list[Json]:
        kind, what = media.mime_type, media.mime_type
        try:
            try:
                kept = self._store.save(media.as_decoded_source(), media.suffix)
            except binascii.Error:
                kept, kind = self._store.save(media.data, ".txt"), "base64 that cannot be decoded"
        except CannotStore as problem:
            self._replacements.append(
                Replacement(ReplacementReason.MEDIA, what, media.size, problem=str(problem))
            )
            return [
                _build_text_block(
                    f"[Content of type {what}, too large to show and not kept: {problem}]"
                )
            ]
        self._replacements.append(
            Replacement(ReplacementReason.MEDIA, what, kept.size, str(kept.path))
        )
        return [
            _build_text_block(render_persisted_file(kind, kept)),
            build_resource_link(kept, what),
        ]

    def _replace_large_parts(
        self, parts: list[ContentPart], original: list[Json], blocks: list[list[Json]]
    ) -> dict[PartKind, _PartReplacement]:
        """Replaces what is too large in `blocks`; of the structure it only makes the stand-in."""
        if self._limit is None:
            return {}
        large = [
            part for part in select_largest(parts, self._limit) if self._is_worth_replacing(part)
        ]
        made: dict[PartKind, _PartReplacement] = {}
        for part in large:
            made[part.kind] = stand_in = self._store_part(part, self._limit // len(large))
            for number in part.block_indexes:
                blocks[number] = []
            if part.block_indexes:
                first = part.block_indexes[0]
                blocks[first] = stand_in.to_blocks(part.kind, original[first])
        return made

    def _is_worth_replacing(self, part: ContentPart) -> bool:
        """A part that is no larger than what would stand for it stays."""
        name = "0" * 32
        would_be = StoredResult(name, self._store.directory / f"{name}.json", len(part.text) * 4)
        stand_in = render_persisted_text(part.text, would_be)
        if part.kind is PartKind.STRUCTURE:
            stand_in = max(
                stand_in, as_json(build_reference(build_file_fields(would_be, part.text))), key=len
            )
        return part.shown_chars > len(stand_in) + len(
            as_json(build_resource_link(would_be, "text/plain"))
        )

    def _store_part(self, part: ContentPart, max_chars: int) -> _PartReplacement:
        try:
            suffix = ".json" if part.kind is PartKind.STRUCTURE else ".txt"
            kept = self._store.save(part.text, suffix)
        except CannotStore as problem:
            size = len(encode_utf8(part.text))
            self._replacements.append(
                Replacement(self._reason, part.kind.value, size, problem=str(problem))
            )
            return _PartReplacement(
                part.text, cut_middle(part.text, max(max_chars, _MIN_CUT_CHARS), str(problem)), None
            )
        self._replacements.append(
            Replacement(self._reason, part.kind.value, kept.size, str(kept.path))
        )
        return _PartReplacement(part.text, render_persisted_text(part.text, kept), kept)


@dataclass(frozen=True, slots=True)
class _StructuredContent:
    """The structure of a result that was changed; `told` where the text says the same."""

    value: Json
    is_in_text: bool
    replacements: dict[PartKind, _PartReplacement]

    def replace_by_reference(self, delivered: JsonObject) -> JsonObject:
        """The change is told inside the structure."""
        return {**delivered, "structuredContent": build_reference(self._build_reference_fields())}

    def replace_by_text(self, delivered: JsonObject) -> JsonObject:
        """Without the structure, which no client asks for: its content is told as text."""
        without = {key: value for key, value in delivered.items() if key != "structuredContent"}
        if self.is_in_text:
            return without
        stand_in = self.replacements.get(PartKind.STRUCTURE)
        said = (
            [_build_text_block(as_json(self.value))]
            if stand_in is None
            else stand_in.to_blocks(PartKind.STRUCTURE)
        )
        return {**without, "content": [*extract_blocks(without), *said]}

    def _build_reference_fields(self) -> JsonObject:
        of_text = self.replacements.get(PartKind.TEXT)
        whole = of_text if self.is_in_text else self.replacements.get(PartKind.STRUCTURE)
        if whole is not None and whole.stored is not None:
            return build_file_fields(whole.stored, whole.text)
        if whole is not None:
            return {"size": len(encode_utf8(as_json(self.value))), "preview": whole.shown_text}
        if of_text is None or of_text.stored is None:
            return {"value": self.value, "notes": [_CONTENT_REPLACED_NOTE]}
        kept = of_text.stored
        named: JsonObject = {"path": str(kept.path), "link": kept.uri, "size": kept.size}
        return {**named, "notes": [_TEXT_REPLACED_NOTE], "value": self.value}


def _choose_mime_type(kind: PartKind) -> str:
    return "application/json" if kind is PartKind.STRUCTURE else "text/plain"


def _build_text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}
