"""Jupyter notebooks: a file's bytes to cells, as far as we show them."""

import codecs
import re
from typing import Annotated

import msgspec

from mcp_dispatch.model.errors import MCPDispatchError

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
