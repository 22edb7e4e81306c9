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


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be shown: `count` lines from line `first`, each up to `width`, `budget` in all.

    Widths and budget are in characters; a `width` of None shows lines whole.
    """

    first: int
    count: int
    width: int | None
    budget: int


class Folded:
    """Text fed piece by piece with a newline after every `width` characters of a longer line."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self.folds = 0

    def fold(self, text: str) -> str:
        if len(text) + self._column <= self._width and "\n" not in text:
            self._column += len(text)
            return text
        lines = text.split("\n")
        shown = [self._line(line, ended=place + 1 < len(lines)) for place, line in enumerate(lines)]
        return "\n".join(shown)

    def _line(self, line: str, *, ended: bool) -> str:
        first = self._width - self._column
        if len(line) <= first:
            self._column = 0 if ended else self._column + len(line)
            return line
        starts = range(first, len(line), self._width)
        pieces = [line[:first], *(line[start : start + self._width] for start in starts)]
        self.folds += len(starts)
        self._column = 0 if ended else len(pieces[-1])
        return "\n".join(pieces)


class Window:
    """Feed the text, then `finish`; `lines` are those in bounds, without their line ends."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._kept: list[str] = []
        self._kept_size = 0
        self._line_size = 0
        self._line_open = False
        self.lines: list[str] = []
        self.cut: list[int] = []
        self.wanted_size = 0
        self.over_budget = False
        self.total = 0

    def feed(self, text: str) -> None:
        start = 0
        while start < len(text):
            if not self._wanted():
                start = self._skip(text, start)
                continue
            end = text.find("\n", start)
            self._extend(text[start:] if end < 0 else text[start:end])
            if end < 0:
                return
            self._end_line()
            start = end + 1

    def finish(self) -> None:
        """The last line need not end in a newline."""
        if self._line_open and self._wanted():
            self._end_line()
        elif self._line_open:
            self.total += 1

    def _wanted(self) -> bool:
        first = self._bounds.first
        return first <= self.total + 1 < first + self._bounds.count

    def _skip(self, text: str, start: int) -> int:
        """Counts lines up to the window, or to the end of `text`."""
        newlines = text.count("\n", start)
        if self.total + 1 > self._bounds.first or self.total + newlines + 1 < self._bounds.first:
            self.total += newlines
            self._line_open = not text.endswith("\n")
            return len(text)
        while self.total + 1 < self._bounds.first:
            start = text.index("\n", start) + 1
            self.total += 1
        self._line_open = False
        return start

    def _extend(self, piece: str) -> None:
        self._line_open = True
        self._line_size += len(piece)
        # One character more than is shown, because a carriage return may come off the end.
        limit = self._bounds.budget if self._bounds.width is None else self._bounds.width
        room = limit + 1 - self._kept_size
        if room > 0 and not self.over_budget:
            self._kept.append(piece[:room])
            self._kept_size += min(room, len(piece))

    def _end_line(self) -> None:
        line = "".join(self._kept)
        size = self._line_size
        if len(line) == size and line.endswith("\r"):
            line, size = line[:-1], size - 1
        self._kept, self._kept_size, self._line_size = [], 0, 0
        self._line_open = False
        self.total += 1
        self._show(line, size)

    def _show(self, line: str, size: int) -> None:
        width = self._bounds.width
        cut = width is not None and size > width
        if width is not None:
            line, size = line[:width], min(size, width)
        # A line costs its newline, too: a file of empty lines is not free.
        self.wanted_size += size + 1
        self.over_budget = self.over_budget or self.wanted_size - 1 > self._bounds.budget
        if not self.over_budget:
            self.lines.append(line)
            if cut:
                self.cut.append(self.total)


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
