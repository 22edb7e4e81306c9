"""Parsing of Jupyter notebooks, and the result that shows their cells."""

import base64
import binascii
import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from mcp_dispatch.fs.safe_open import LoadedFile, describe_file_state
from mcp_dispatch.model.errors import MCPDispatchError
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import FileRead, ToolResult, build_text_block
from mcp_dispatch.tools.files.encoding import SIGNATURE_BYTES, detect_image_format
from mcp_dispatch.tools.files.image import (
    MAX_SOURCE_BYTES,
    CannotShowImage,
    Picture,
    render_picture,
)
from mcp_dispatch.tools.files.target import FileTarget
from mcp_dispatch.tools.files.text_page import CHANGED_WARNING, Bounds, format_reminder

MAX_NOTEBOOK_BYTES = 100 * 1024 * 1024
"""Larger notebooks are not read."""

MultilineText = str | list[str] | None
"""Text in a notebook: one string, or lines with their line endings."""

_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class NotANotebook(MCPDispatchError):
    """The bytes are not a notebook of format 4; the message is the reason."""


class CellOutput(msgspec.Struct, frozen=True):
    output_type: str
    name: str | None = None
    text: MultilineText = None
    # Each value is decoded only if it is shown: most are images, or of types that are not shown.
    data: dict[str, msgspec.Raw] | None = None
    ename: str | None = None
    evalue: str | None = None
    traceback: list[str] | None = None


class NotebookCell(msgspec.Struct, frozen=True):
    cell_type: str
    source: MultilineText = None
    id: str | None = None
    execution_count: Annotated[int, msgspec.Meta(ge=0)] | None = None
    outputs: list[CellOutput] | None = None

    @property
    def safe_id(self) -> str | None:
        """The id, or None if the notebook format does not allow it."""
        return self.id if self.id is not None and _CELL_ID.fullmatch(self.id) else None


class JupyterNotebook(msgspec.Struct, frozen=True):
    """A notebook; msgspec skips the fields that are not declared here."""

    cells: list[NotebookCell]


def parse_notebook(content: bytes) -> JupyterNotebook:
    """Raise `NotANotebook` if `content` cannot be parsed."""
    try:
        return msgspec.json.decode(content.removeprefix(codecs.BOM_UTF8), type=JupyterNotebook)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise NotANotebook(str(problem)) from problem
    except RecursionError as problem:
        raise NotANotebook("it is nested too deeply") from problem


def join_lines(lines: MultilineText) -> str:
    return lines if isinstance(lines, str) else "".join(lines or ())


def decode_text(raw: msgspec.Raw) -> str:
    """Return a value of a MIME bundle as text: a string, joined lines, or the JSON itself."""
    try:
        return join_lines(msgspec.json.decode(raw, type=str | list[str]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return bytes(raw).decode("utf-8", "replace")


MAX_OUTPUT_CHARS = 10_000
"""Characters of one output."""

MAX_CELL_OUTPUT_CHARS = 30_000
"""Characters of all outputs of one cell."""

MAX_IMAGES = 10
"""Images in one result."""

_TEXT_KINDS = ("text/plain", "text/markdown", "text/latex", "application/json", "text/html")
_IMAGE_KINDS = tuple(f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "bmp", "tiff"))
_ANSI_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

CellPart = str | Picture


@dataclass
class NotebookView:
    """Collects the cells that fit into one result."""

    bounds: Bounds
    parts: list[CellPart] = field(default_factory=list[CellPart])
    cell_responses: list[Json] = field(default_factory=list[Json])
    size: int = 0
    images: int = 0
    cut_cells: list[int] = field(default_factory=list[int])

    @property
    def shown_count(self) -> int:
        return len(self.cell_responses)

    def add(self, number: int, cell: NotebookCell) -> bool:
        """Add the cell and return True, or return False if it does not fit.

        The first cell is always added, if necessary with a truncated source.
        """
        source, room = join_lines(cell.source), self.bounds.budget - MAX_CELL_OUTPUT_CHARS
        if self.shown_count and self.size + len(source) > self.bounds.budget:
            return False
        parts = [
            *_render_opening(number, cell, source[:room]),
            *self._iter_outputs(cell),
            "</cell>",
        ]
        size = sum(len(part) for part in parts if isinstance(part, str))
        if self.shown_count and self.size + size > self.bounds.budget:
            return False
        if len(source) > room:
            self.cut_cells.append(number)
        self.size += size
        self.images += sum(isinstance(part, Picture) for part in parts)
        self.parts += parts
        self.cell_responses.append(_build_cell_response(cell, source[:room], parts[1:-1]))
        return True

    def _iter_outputs(self, cell: NotebookCell) -> Iterator[CellPart]:
        size, images, outputs = 0, self.images, cell.outputs or []
        for number, output in enumerate(outputs):
            if size > MAX_CELL_OUTPUT_CHARS - MAX_OUTPUT_CHARS:
                yield f"[{len(outputs) - number} more outputs are not shown]"
                return
            for part in _render_output(output, MAX_IMAGES - images):
                size += len(part) if isinstance(part, str) else 0
                images += isinstance(part, Picture)
                yield part


def build_notebook_result(
    target: FileTarget, notebook: JupyterNotebook, bounds: Bounds, loaded: LoadedFile, changed: bool
) -> ToolResult:
    """Return the cells from number `bounds.first` on.

    The file counts as read if every source is shown whole. A truncated output does not matter for
    a later write, because outputs are generated again when the notebook runs.
    """
    view, total = NotebookView(bounds), len(notebook.cells)
    last = bounds.first - 1 + bounds.count
    for number, cell in enumerate(notebook.cells[bounds.first - 1 : last], bounds.first):
        if not view.add(number, cell):
            break
    whole = view.shown_count == total and not view.cut_cells and not changed
    notices = _build_notices(target, view, total, whole=whole)
    if changed:
        notices.append(CHANGED_WARNING)
    content = _build_blocks([*view.parts, *map(format_reminder, notices)])
    file: JsonObject = {"filePath": str(target.path), "cells": view.cell_responses}
    return ToolResult(
        {"content": content},
        {"type": "notebook", "file": file},
        (
            FileRead(
                target.key, describe_file_state(loaded.status, loaded.digest, partial=not whole)
            ),
        ),
    )


def _build_notices(target: FileTarget, view: NotebookView, total: int, *, whole: bool) -> list[str]:
    first = view.bounds.first
    if total == 0:
        return ["Warning: the notebook has no cells."]
    if first > total:
        return [
            "Warning: the notebook is shorter than the provided offset"
            f" ({first}). It has {total} cells."
        ]
    if whole:
        return []
    parts = [
        f"PARTIAL view of {target.path}: cells {first}-{first + view.shown_count - 1} of {total}."
    ]
    if view.cut_cells:
        parts.append(f"The source of cell {view.cut_cells[0]} is too long to be shown whole.")
    parts.append("Use offset and limit to read the rest. This does not count as reading the file.")
    return [" ".join(parts)]


def _render_opening(number: int, cell: NotebookCell, source: str) -> list[CellPart]:
    kind = cell.cell_type if cell.cell_type in ("code", "markdown", "raw") else "other"
    id_attribute = f' id="{cell.safe_id}"' if cell.safe_id else ""
    count_attribute = (
        f' execution_count="{cell.execution_count}"' if cell.execution_count is not None else ""
    )
    return [f'<cell number="{number}"{id_attribute} type="{kind}"{count_attribute}>\n{source}']


def _render_output(output: CellOutput, images_left: int) -> Iterator[CellPart]:
    """Yield the text of an output, then its image."""
    match output.output_type:
        case "stream":
            name = ' name="stderr"' if output.name == "stderr" else ""
            yield _wrap_output(f"<output{name}>", join_lines(output.text))
        case "error":
            short = f"{output.ename or 'Error'}: {output.evalue or ''}"
            yield _wrap_output('<output type="error">', "\n".join(output.traceback or [short]))
        case _:
            yield from _render_mime_bundle(output, images_left)


def _render_mime_bundle(output: CellOutput, images_left: int) -> Iterator[CellPart]:
    """Yield the preferred text and the preferred image among the representations of an output."""
    data = output.data or {}
    text_kind = next((kind for kind in _TEXT_KINDS if kind in data), None)
    image_kind = next((kind for kind in _IMAGE_KINDS if kind in data), None)
    if text_kind is not None:
        yield _wrap_output("<output>", decode_text(data[text_kind]))
    if image_kind is not None:
        yield _render_image(decode_text(data[image_kind]), images_left > 0)
    if text_kind is None and image_kind is None:
        yield "<output>\n[not shown: neither text nor an image that can be shown]\n</output>"


def _render_image(encoded: str, is_allowed: bool) -> CellPart:
    if not is_allowed:
        return f"[an image is not shown: one answer has {MAX_IMAGES} at most; use offset and limit]"
    if len(encoded) > MAX_SOURCE_BYTES * 4 // 3:
        return f"[an image is not shown: it has more than {MAX_SOURCE_BYTES} bytes]"
    try:
        content = base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        content = b""
    image_format = detect_image_format(content[:SIGNATURE_BYTES])
    if image_format is None:
        return "[an image is not shown: it is no PNG, JPEG, GIF, WebP, BMP or TIFF]"
    try:
        return render_picture(content, image_format)
    except CannotShowImage as problem:
        return f"[an image is not shown: {problem}]"


def _wrap_output(start_tag: str, text: str) -> str:
    return f"{start_tag}\n{_ANSI_ESCAPES.sub('', _truncate_middle(text)).rstrip()}\n</output>"


def _truncate_middle(text: str) -> str:
    """Keep the start and the end: the cause of an error is often at the end."""
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    half = MAX_OUTPUT_CHARS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[{left_out} characters are not shown]\n{text[-half:]}"


def _build_blocks(parts: list[CellPart]) -> list[Json]:
    """Return content blocks; all text between two images is one block."""
    blocks: list[Json] = []
    lines: list[str] = []
    for part in parts:
        if isinstance(part, str):
            lines.append(part)
            continue
        lines.append(f"[{part}]")
        blocks += [build_text_block("\n".join(lines)), part.to_content_block()]
        lines = []
    return [*blocks, build_text_block("\n".join(lines))] if lines else blocks


def _build_cell_response(cell: NotebookCell, source: str, outputs: list[CellPart]) -> JsonObject:
    """Return the cell as hooks receive it."""
    shown: list[Json] = [str(output) for output in outputs]
    return {
        "cellType": cell.cell_type,
        "cell_id": cell.id,
        "execution_count": cell.execution_count,
        "source": source,
        "outputs": shown,
    }
