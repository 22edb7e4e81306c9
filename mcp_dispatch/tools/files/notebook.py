"""Jupyter notebooks: a file's bytes to cells, as far as we show them."""

import base64
import binascii
import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from mcp_dispatch.fs.safe_open import Loaded, seen_as
from mcp_dispatch.model.errors import MCPDispatchError
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import FileRead, ToolResult
from mcp_dispatch.tools.files.image import (
    FILE_LIMIT,
    HEAD,
    CannotShow,
    Picture,
    format_of,
    picture_of,
)
from mcp_dispatch.tools.files.target import Target
from mcp_dispatch.tools.files.text_page import CHANGED, Bounds, reminder

NOTEBOOK_LIMIT = 100 * 1024 * 1024
"""Bytes of a notebook that is read at all."""

Lines = str | list[str] | None
"""Text as notebooks keep it: whole, or as lines with their ends."""

_CELL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class NotANotebook(MCPDispatchError):
    """The bytes are no notebook of format 4; the message says what is wrong."""


class Output(msgspec.Struct, frozen=True):
    output_type: str
    name: str | None = None
    text: Lines = None
    # Decoded one by one when they are shown: most are images, or kinds nobody shows.
    data: dict[str, msgspec.Raw] | None = None
    ename: str | None = None
    evalue: str | None = None
    traceback: list[str] | None = None


class Cell(msgspec.Struct, frozen=True):
    cell_type: str
    source: Lines = None
    id: str | None = None
    execution_count: Annotated[int, msgspec.Meta(ge=0)] | None = None
    outputs: list[Output] | None = None

    @property
    def safe_id(self) -> str | None:
        """The id, where it is one that the format allows."""
        return self.id if self.id is not None and _CELL_ID.fullmatch(self.id) else None


class Notebook(msgspec.Struct, frozen=True):
    """Fields that we do not show are passed over without being built."""

    cells: list[Cell]


def parse_notebook(content: bytes) -> Notebook:
    """Raises `NotANotebook`."""
    try:
        return msgspec.json.decode(content.removeprefix(codecs.BOM_UTF8), type=Notebook)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise NotANotebook(str(problem)) from problem
    except RecursionError as problem:
        raise NotANotebook("it is nested too deeply") from problem


def joined(lines: Lines) -> str:
    return lines if isinstance(lines, str) else "".join(lines or ())


def text_in(raw: msgspec.Raw) -> str:
    """A value of a mime bundle as text: as it is, its lines joined, or its JSON."""
    try:
        return joined(msgspec.json.decode(raw, type=str | list[str]))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return bytes(raw).decode("utf-8", "replace")


OUTPUT_LIMIT = 10_000
"""Characters of one output."""

OUTPUTS_LIMIT = 30_000
"""Characters of all outputs of one cell."""

MOST_IMAGES = 10
"""Images in one answer."""

_TEXT_KINDS = ("text/plain", "text/markdown", "text/latex", "application/json", "text/html")
_IMAGE_KINDS = tuple(f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "bmp", "tiff"))
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

Part = str | Picture


@dataclass
class View:
    """The cells that fit into one answer, gathered one after the other."""

    bounds: Bounds
    parts: list[Part] = field(default_factory=list[Part])
    told: list[Json] = field(default_factory=list[Json])
    size: int = 0
    images: int = 0
    cut: list[int] = field(default_factory=list[int])

    @property
    def shown(self) -> int:
        return len(self.told)

    def add(self, number: int, cell: Cell) -> bool:
        """Whether it still fitted; the first always does, with a source that may be cut."""
        source, room = joined(cell.source), self.bounds.budget - OUTPUTS_LIMIT
        if self.shown and self.size + len(source) > self.bounds.budget:
            return False
        parts = [*_opening(number, cell, source[:room]), *self._outputs(cell), "</cell>"]
        size = sum(len(part) for part in parts if isinstance(part, str))
        if self.shown and self.size + size > self.bounds.budget:
            return False
        if len(source) > room:
            self.cut.append(number)
        self.size += size
        self.images += sum(isinstance(part, Picture) for part in parts)
        self.parts += parts
        self.told.append(_told(cell, source[:room], parts[1:-1]))
        return True

    def _outputs(self, cell: Cell) -> Iterator[Part]:
        size, images, outputs = 0, self.images, cell.outputs or []
        for number, output in enumerate(outputs):
            if size > OUTPUTS_LIMIT - OUTPUT_LIMIT:
                yield f"[{len(outputs) - number} more outputs are not shown]"
                return
            for part in _output_parts(output, MOST_IMAGES - images):
                size += len(part) if isinstance(part, str) else 0
                images += isinstance(part, Picture)
                yield part


def notebook_result(
    target: Target, notebook: Notebook, bounds: Bounds, loaded: Loaded, changed: bool
) -> ToolResult:
    """Cells `bounds.first` and following. Seen whole once every source was shown whole: outputs
    are made anew when a notebook runs, so a cut one is no reason to hold back a write."""
    view, total = View(bounds), len(notebook.cells)
    last = bounds.first - 1 + bounds.count
    for number, cell in enumerate(notebook.cells[bounds.first - 1 : last], bounds.first):
        if not view.add(number, cell):
            break
    whole = view.shown == total and not view.cut and not changed
    notices = _notices(target, view, total, whole=whole)
    if changed:
        notices.append(CHANGED)
    content = _blocks([*view.parts, *map(reminder, notices)])
    file: JsonObject = {"filePath": str(target.path), "cells": view.told}
    return ToolResult(
        {"content": content},
        {"type": "notebook", "file": file},
        (FileRead(target.key, seen_as(loaded.status, loaded.digest, partial=not whole)),),
    )


def _notices(target: Target, view: View, total: int, *, whole: bool) -> list[str]:
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
    parts = [f"PARTIAL view of {target.path}: cells {first}-{first + view.shown - 1} of {total}."]
    if view.cut:
        parts.append(f"The source of cell {view.cut[0]} is too long to be shown whole.")
    parts.append("Use offset and limit to read the rest. This does not count as reading the file.")
    return [" ".join(parts)]


def _opening(number: int, cell: Cell, source: str) -> list[Part]:
    kind = cell.cell_type if cell.cell_type in ("code", "markdown", "raw") else "other"
    named = f' id="{cell.safe_id}"' if cell.safe_id else ""
    ran = f' execution_count="{cell.execution_count}"' if cell.execution_count is not None else ""
    return [f'<cell number="{number}"{named} type="{kind}"{ran}>\n{source}']


def _output_parts(output: Output, images_left: int) -> Iterator[Part]:
    """The text of an output in one part, then its images."""
    match output.output_type:
        case "stream":
            name = ' name="stderr"' if output.name == "stderr" else ""
            yield _enclosed(f"<output{name}>", joined(output.text))
        case "error":
            short = f"{output.ename or 'Error'}: {output.evalue or ''}"
            yield _enclosed('<output type="error">', "\n".join(output.traceback or [short]))
        case _:
            yield from _bundle(output, images_left)


def _bundle(output: Output, images_left: int) -> Iterator[Part]:
    """One thing in several kinds: its best text and its best image are shown."""
    data = output.data or {}
    text_kind = next((kind for kind in _TEXT_KINDS if kind in data), None)
    image_kind = next((kind for kind in _IMAGE_KINDS if kind in data), None)
    if text_kind is not None:
        yield _enclosed("<output>", text_in(data[text_kind]))
    if image_kind is not None:
        yield _image(text_in(data[image_kind]), images_left > 0)
    if text_kind is None and image_kind is None:
        yield "<output>\n[not shown: neither text nor an image that can be shown]\n</output>"


def _image(encoded: str, wanted: bool) -> Part:
    if not wanted:
        return (
            f"[an image is not shown: one answer has {MOST_IMAGES} at most; use offset and limit]"
        )
    if len(encoded) > FILE_LIMIT * 4 // 3:
        return f"[an image is not shown: it has more than {FILE_LIMIT} bytes]"
    try:
        content = base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        content = b""
    image_format = format_of(content[:HEAD])
    if image_format is None:
        return "[an image is not shown: it is no PNG, JPEG, GIF, WebP, BMP or TIFF]"
    try:
        return picture_of(content, image_format)
    except CannotShow as problem:
        return f"[an image is not shown: {problem}]"


def _enclosed(opening: str, text: str) -> str:
    return f"{opening}\n{_COLOURS.sub('', _cut(text)).rstrip()}\n</output>"


def _cut(text: str) -> str:
    """First and last part: an error names its cause at the end."""
    if len(text) <= OUTPUT_LIMIT:
        return text
    half = OUTPUT_LIMIT // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[{left_out} characters are not shown]\n{text[-half:]}"


def _blocks(parts: list[Part]) -> list[Json]:
    """Text between two images is one block."""
    blocks: list[Json] = []
    lines: list[str] = []
    for part in parts:
        if isinstance(part, str):
            lines.append(part)
            continue
        lines.append(f"[{part}]")
        blocks += [_text_block(lines), part.block()]
        lines = []
    return [*blocks, _text_block(lines)] if lines else blocks


def _text_block(lines: list[str]) -> JsonObject:
    return {"type": "text", "text": "\n".join(lines)}


def _told(cell: Cell, source: str, outputs: list[Part]) -> JsonObject:
    """A cell as hooks see it."""
    shown: list[Json] = [str(output) for output in outputs]
    return {
        "cellType": cell.cell_type,
        "cell_id": cell.id,
        "execution_count": cell.execution_count,
        "source": source,
        "outputs": shown,
    }
