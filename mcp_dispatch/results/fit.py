"""Fits a result to its limits: parts that are too large go to files and are replaced by previews."""

import binascii
from dataclasses import dataclass

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Replacement, ReplacementReason, build_text_block
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
from mcp_dispatch.results.size import (
    MAX_IMAGE_BYTES,
    as_json,
    extract_blocks,
    has_no_output,
    is_too_large,
    needs_disk,
)
from mcp_dispatch.results.store import CannotStore, ResultStore, StoredResult

_MIN_CUT_CHARS = 2_000
_TEXT_REPLACED_NOTE = "The text beside this structure was too large; the file has the whole of it."
_CONTENT_REPLACED_NOTE = "Content beside this structure was replaced; it is not shown here."


@dataclass(frozen=True, slots=True)
class FittedResult:
    """The result to deliver, and a record of each part that was replaced."""

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
    """Return `wire` itself if it fits; otherwise store its largest parts and replace them.

    `limit` is in characters, None for a tool that limits its own output. In an `untrusted` result,
    text that imitates our markers is escaped; the stored file always has the original text.

    A changed result loses its `structuredContent`, because a client may show that instead of the
    text and so hide the change. With an output schema, a reference takes its place: the advertised
    schema allows one.

    Writes files if `needs_disk`: call it from a worker thread then.
    """
    shown = escape_markers_in_result(wire) if untrusted else wire
    failed = wire.get("isError") is True
    if has_no_output(shown):
        text = describe_empty_output(tool_name, failed=failed)
        return FittedResult({**shown, "content": [build_text_block(text)]})
    if not needs_disk(shown, limit, max_image_bytes):
        return FittedResult(shown)
    fitter = _ResultFitter(limit, store, reason, max_image_bytes)
    return fitter.fit(wire, shown, has_output_schema and not failed)


@dataclass(frozen=True, slots=True)
class _PartReplacement:
    """The text shown instead of a part, and the file with the part if it could be stored."""

    part: ContentPart
    shown_text: str
    stored: StoredResult | None

    def to_blocks(self, original: Json = None) -> list[Json]:
        """Return the blocks to deliver; a text block keeps the other fields of `original`."""
        kind = self.part.kind
        if kind in (PartKind.TEXT, PartKind.EMBEDDED):
            block = with_text(original, self.shown_text)
        else:
            block = build_text_block(self.shown_text)
        if self.stored is None:
            return [block]
        mime_type = "application/json" if kind is PartKind.STRUCTURE else "text/plain"
        return [block, build_resource_link(self.stored, mime_type)]


class _ResultFitter:
    """Replaces the large parts of one result and records each replacement."""

    def __init__(
        self, limit: int | None, store: ResultStore, reason: ReplacementReason, max_image_bytes: int
    ) -> None:
        self._limit = limit
        self._store = store
        self._reason = reason
        self._max_image_bytes = max_image_bytes
        self._replacements: list[Replacement] = []

    def fit(self, original: JsonObject, shown: JsonObject, has_output_schema: bool) -> FittedResult:
        # One list of blocks for each original block: a block may be removed or get a link.
        blocks: list[list[Json]] = [[block] for block in extract_blocks(shown)]
        self._replace_large_media(extract_blocks(original), blocks)
        parts = split_into_parts(original, shown)
        replaced = self._replace_large_parts(parts, extract_blocks(original), blocks)
        if not self._replacements:
            return FittedResult(shown)
        content: list[Json] = [block for group in blocks for block in group]
        delivered: JsonObject = {**shown, "content": content}
        if original.get("structuredContent") is not None:
            is_in_text = all(part.kind is not PartKind.STRUCTURE for part in parts)
            structure = _StructuredContent(original["structuredContent"], is_in_text, replaced)
            delivered = structure.replace_in(delivered, has_output_schema)
        return FittedResult(delivered, tuple(self._replacements))

    def _replace_large_media(self, original: list[Json], blocks: list[list[Json]]) -> None:
        for index, block in enumerate(original):
            media = extract_media(block)
            if media is not None and is_too_large(media, self._limit, self._max_image_bytes):
                blocks[index] = self._store_media(media)

    def _store_media(self, media: BlockMedia) -> list[Json]:
        mime_type = media.mime_type
        try:
            try:
                stored = self._store.save(media.as_decoded_source(), media.suffix)
                description = mime_type
            except binascii.Error:
                stored = self._store.save(media.data, ".txt")
                description = "base64 that cannot be decoded"
        except CannotStore as error:
            self._record(ReplacementReason.MEDIA, mime_type, media.size, error)
            text = f"[Content of type {mime_type}, too large to show and not kept: {error}]"
            return [build_text_block(text)]
        self._record(ReplacementReason.MEDIA, mime_type, stored.size, stored)
        text = render_persisted_file(description, stored)
        return [build_text_block(text), build_resource_link(stored, mime_type)]

    def _replace_large_parts(
        self, parts: list[ContentPart], original: list[Json], blocks: list[list[Json]]
    ) -> dict[PartKind, _PartReplacement]:
        """Replace large parts in `blocks`. The caller replaces the structure, which has no block."""
        if self._limit is None:
            return {}
        largest = select_largest(parts, self._limit)
        large = [part for part in largest if self._is_worth_replacing(part)]
        replaced: dict[PartKind, _PartReplacement] = {}
        for part in large:
            replaced[part.kind] = self._store_part(part, self._limit // len(large))
            for index in part.block_indexes:
                blocks[index] = []
            if part.block_indexes:
                first = part.block_indexes[0]
                blocks[first] = replaced[part.kind].to_blocks(original[first])
        return replaced

    def _is_worth_replacing(self, part: ContentPart) -> bool:
        """Return whether the part is larger than its replacement would be."""
        id = "0" * 32
        stored = StoredResult(id, self._store.directory / f"{id}.json", len(part.text) * 4)
        replacement = render_persisted_text(part.text, stored)
        if part.kind is PartKind.STRUCTURE:
            reference = as_json(build_reference(build_file_fields(stored, part.text)))
            replacement = max(replacement, reference, key=len)
        link = as_json(build_resource_link(stored, "text/plain"))
        return part.shown_chars > len(replacement) + len(link)

    def _store_part(self, part: ContentPart, max_chars: int) -> _PartReplacement:
        suffix = ".json" if part.kind is PartKind.STRUCTURE else ".txt"
        try:
            stored = self._store.save(part.text, suffix)
        except CannotStore as error:
            self._record(self._reason, part.kind.value, len(encode_utf8(part.text)), error)
            excerpt = cut_middle(part.text, max(max_chars, _MIN_CUT_CHARS), str(error))
            return _PartReplacement(part, excerpt, None)
        self._record(self._reason, part.kind.value, stored.size, stored)
        return _PartReplacement(part, render_persisted_text(part.text, stored), stored)

    def _record(
        self,
        reason: ReplacementReason,
        description: str,
        size: int,
        outcome: StoredResult | CannotStore,
    ) -> None:
        if isinstance(outcome, StoredResult):
            replacement = Replacement(reason, description, size, str(outcome.path))
        else:
            replacement = Replacement(reason, description, size, problem=str(outcome))
        self._replacements.append(replacement)


@dataclass(frozen=True, slots=True)
class _StructuredContent:
    """The structure of a changed result; `is_in_text` if a text block repeats it."""

    value: Json
    is_in_text: bool
    replaced: dict[PartKind, _PartReplacement]

    def replace_in(self, delivered: JsonObject, has_output_schema: bool) -> JsonObject:
        """Replace the structure by a reference, or without an output schema by text."""
        if has_output_schema:
            return {**delivered, "structuredContent": build_reference(self._build_fields())}
        without = {key: value for key, value in delivered.items() if key != "structuredContent"}
        if self.is_in_text:
            return without
        replacement = self.replaced.get(PartKind.STRUCTURE)
        if replacement is None:
            blocks: list[Json] = [build_text_block(as_json(self.value))]
        else:
            blocks = replacement.to_blocks()
        return {**without, "content": [*extract_blocks(without), *blocks]}

    def _build_fields(self) -> JsonObject:
        text = self.replaced.get(PartKind.TEXT)
        whole = text if self.is_in_text else self.replaced.get(PartKind.STRUCTURE)
        if whole is not None and whole.stored is not None:
            return build_file_fields(whole.stored, whole.part.text)
        if whole is not None:
            return {"size": len(encode_utf8(as_json(self.value))), "preview": whole.shown_text}
        if text is None or text.stored is None:
            return {"value": self.value, "notes": [_CONTENT_REPLACED_NOTE]}
        return {
            "path": str(text.stored.path),
            "link": text.stored.uri,
            "size": text.stored.size,
            "notes": [_TEXT_REPLACED_NOTE],
            "value": self.value,
        }
