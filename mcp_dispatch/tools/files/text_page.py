"""A page of a text file: its lines as they are shown, and what the reader should know of them."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_dispatch.fs.safe_open import CannotUse, seen_as
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import FileRead, FileSeen, ToolResult, error_result, text_result
from mcp_dispatch.tools.files.encoding import TextStream, encoding_of
from mcp_dispatch.tools.files.target import Target
from mcp_dispatch.tools.files.text_page__window import Bounds, Folded, Window

LINES = 2000
WIDTH = 2000
TOKENS = 25_000
CHARACTERS_PER_TOKEN = 4
BUDGET = TOKENS * CHARACTERS_PER_TOKEN
"""Characters of one page; a file over it can only be seen in parts."""

CHANGED = "Warning: the file changed while it was read. Read it again."

_PIECE = 1024 * 1024


class Stop(Protocol):
    """Asked between two pieces of a file; `threading.Event` is one."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Page:
    """Lines `first` and following of a file, and what the reader should know of them."""

    lines: tuple[str, ...]
    first: int
    total: int
    cut: tuple[int, ...]
    tokens: int
    over_budget: bool
    lossy: bool
    changed: bool
    seen: FileSeen


def read_page(
    target: Target, descriptor: int, bounds: Bounds, stop: Stop, folded: Folded | None = None
) -> Page:
    """Reads the file once, from end to end, in pieces. Blocks; `stop` ends it early.

    `folded` makes several lines of a long one, so that any part of it can be asked for.
    """
    before = os.fstat(descriptor)
    fold = str if folded is None else folded.fold
    window, digest, lossy = _scan(target, descriptor, before.st_size, Window(bounds), stop, fold)
    changed = has_changed(descriptor, before)
    whole = len(window.lines) == window.total and not window.cut and not changed
    return Page(
        lines=tuple(window.lines),
        first=bounds.first,
        total=window.total,
        cut=tuple(window.cut),
        tokens=-(-window.wanted_size // CHARACTERS_PER_TOKEN),
        over_budget=window.over_budget,
        lossy=lossy,
        changed=changed,
        seen=seen_as(before, digest, partial=not whole),
    )


def has_changed(descriptor: int, before: os.stat_result) -> bool:
    after = os.fstat(descriptor)
    return (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size)


def _scan(
    target: Target,
    descriptor: int,
    size: int,
    window: Window,
    stop: Stop,
    fold: Callable[[str], str],
) -> tuple[Window, str, bool]:
    """No more than `size` bytes: a file that grows while it is read has an end for us."""
    digest, stream, left = hashlib.sha256(), None, size
    while left > 0 and (piece := os.read(descriptor, min(_PIECE, left))):
        if stop.is_set():
            raise CannotUse(f"Reading {target.path} was stopped.")
        stream = stream or _stream_for(target, piece)
        left -= len(piece)
        digest.update(piece)
        window.feed(fold(stream.decode(piece)))
    if stream is not None:
        window.feed(fold(stream.decode(b"", final=True)))
    window.finish()
    return window, digest.hexdigest(), stream is not None and stream.lossy


def _stream_for(target: Target, head: bytes) -> TextStream:
    encoding = encoding_of(head)
    if encoding is None:
        raise CannotUse(
            f"{target.path} is a binary file; Read shows text, notebooks and images (PNG, JPEG, GIF,"
            " WebP, BMP, TIFF)."
            " Use Bash with a program that knows its format, such as `file` or `xxd`."
        )
    return TextStream(encoding)


def page_result(
    target: Target, page: Page, *, chosen: bool, notices: Sequence[str] = ()
) -> ToolResult:
    """`chosen`: the reader asked for these lines, so there is no page to fall back to."""
    if chosen and page.over_budget:
        return error_result(
            f"File content ({page.tokens} tokens) exceeds maximum allowed tokens ({TOKENS})."
            " Use offset and limit parameters to read a smaller part of the file."
        )
    numbered = (f"{number:6}\t{line}" for number, line in enumerate(page.lines, page.first))
    reminders = map(reminder, (*notices, *_notices(target, page)))
    return text_result(
        "\n".join([*numbered, *reminders]),
        response=_response(target, page),
        changes=(FileRead(target.key, page.seen),),
    )


def reminder(notice: str) -> str:
    return f"<system-reminder>{notice}</system-reminder>"


def _response(target: Target, page: Page) -> JsonObject:
    return {
        "type": "text",
        "file": {
            "filePath": str(target.path),
            "content": "\n".join(page.lines),
            "numLines": len(page.lines),
            "startLine": page.first,
            "totalLines": page.total,
        },
    }


def _notices(target: Target, page: Page) -> list[str]:
    notices: list[str] = []
    if page.total == 0:
        notices.append("Warning: the file exists but the contents are empty.")
    elif page.first > page.total:
        notices.append(
            "Warning: the file exists but is shorter than the provided offset"
            f" ({page.first}). The file has {page.total} lines."
        )
    elif page.seen.partial:
        notices.append(_partial_notice(target, page))
    if page.lossy:
        notices.append(
            "Warning: the file is not valid UTF-8; bytes that could not be read are shown as \ufffd."
        )
    if page.changed:
        notices.append(CHANGED)
    return notices


def _partial_notice(target: Target, page: Page) -> str:
    last = page.first + len(page.lines) - 1
    parts = [f"PARTIAL view of {target.path}: lines {page.first}-{last} of {page.total}."]
    if page.cut:
        some = ", ".join(map(str, page.cut[:10])) + (", …" if len(page.cut) > 10 else "")
        parts.append(f"Cut at {WIDTH} characters: line {some}.")
    parts.append("Use offset and limit to read the rest. This does not count as reading the file.")
    return " ".join(parts)
