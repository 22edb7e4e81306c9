"""Reading one page of a text file, and the result that shows it."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mcp_dispatch.fs.safe_open import FileError, describe_file_state
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import (
    FileRead,
    FileSeen,
    ToolResult,
    build_error_result,
    build_text_result,
)
from mcp_dispatch.tools.files.encoding import TextStream, detect_encoding
from mcp_dispatch.tools.files.target import FileTarget


@dataclass(frozen=True, slots=True)
class Bounds:
    """The part of a file to show: `count` lines from line `first` on.

    `width` is the maximum of characters per line (None: no maximum), `budget` that of the page.
    """

    first: int
    count: int
    width: int | None
    budget: int


class LineWrapper:
    """Inserts a newline after every `width` characters of a long line; text comes in chunks."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self.added_breaks = 0

    def wrap(self, text: str) -> str:
        if len(text) + self._column <= self._width and "\n" not in text:
            self._column += len(text)
            return text
        lines = text.split("\n")
        wrapped = [
            self._wrap_line(line, is_complete=index + 1 < len(lines))
            for index, line in enumerate(lines)
        ]
        return "\n".join(wrapped)

    def _wrap_line(self, line: str, *, is_complete: bool) -> str:
        first = self._width - self._column
        if len(line) <= first:
            self._column = 0 if is_complete else self._column + len(line)
            return line
        starts = range(first, len(line), self._width)
        pieces = [line[:first], *(line[start : start + self._width] for start in starts)]
        self.added_breaks += len(starts)
        self._column = 0 if is_complete else len(pieces[-1])
        return "\n".join(pieces)


class LineWindow:
    """Collects the lines within bounds from text that comes in chunks; call `finish` at the end.

    `lines` have no line endings, and `cut_lines` are the numbers of those cut at the width.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._pieces: list[str] = []
        self._pieces_size = 0
        self._line_size = 0
        self._is_line_open = False
        self.lines: list[str] = []
        self.cut_lines: list[int] = []
        self.requested_chars = 0
        self.is_over_budget = False
        self.total_lines = 0

    def feed(self, text: str) -> None:
        start = 0
        while start < len(text):
            if not self._is_in_bounds():
                start = self._skip_lines(text, start)
                continue
            end = text.find("\n", start)
            self._extend_line(text[start:] if end < 0 else text[start:end])
            if end < 0:
                return
            self._end_line()
            start = end + 1

    def finish(self) -> None:
        """End the last line, which may have no newline."""
        if self._is_line_open and self._is_in_bounds():
            self._end_line()
        elif self._is_line_open:
            self.total_lines += 1

    def _is_in_bounds(self) -> bool:
        first = self._bounds.first
        return first <= self.total_lines + 1 < first + self._bounds.count

    def _skip_lines(self, text: str, start: int) -> int:
        """Count lines up to the first one in bounds or the end of `text`; return that position."""
        newlines = text.count("\n", start)
        if (
            self.total_lines + 1 > self._bounds.first
            or self.total_lines + newlines + 1 < self._bounds.first
        ):
            self.total_lines += newlines
            self._is_line_open = not text.endswith("\n")
            return len(text)
        while self.total_lines + 1 < self._bounds.first:
            start = text.index("\n", start) + 1
            self.total_lines += 1
        self._is_line_open = False
        return start

    def _extend_line(self, piece: str) -> None:
        self._is_line_open = True
        self._line_size += len(piece)
        # One more character than is shown: a carriage return at the end is removed later.
        limit = self._bounds.budget if self._bounds.width is None else self._bounds.width
        room = limit + 1 - self._pieces_size
        if room > 0 and not self.is_over_budget:
            self._pieces.append(piece[:room])
            self._pieces_size += min(room, len(piece))

    def _end_line(self) -> None:
        line = "".join(self._pieces)
        size = self._line_size
        if len(line) == size and line.endswith("\r"):
            line, size = line[:-1], size - 1
        self._pieces, self._pieces_size, self._line_size = [], 0, 0
        self._is_line_open = False
        self.total_lines += 1
        self._add_line(line, size)

    def _add_line(self, line: str, size: int) -> None:
        width = self._bounds.width
        cut = width is not None and size > width
        if width is not None:
            line, size = line[:width], min(size, width)
        # The newline counts, too: otherwise a file of empty lines would have no size.
        self.requested_chars += size + 1
        self.is_over_budget = self.is_over_budget or self.requested_chars - 1 > self._bounds.budget
        if not self.is_over_budget:
            self.lines.append(line)
            if cut:
                self.cut_lines.append(self.total_lines)


DEFAULT_LINES = 2000
MAX_LINE_CHARS = 2000
MAX_TOKENS = 25_000
CHARACTERS_PER_TOKEN = 4
MAX_PAGE_CHARS = MAX_TOKENS * CHARACTERS_PER_TOKEN
"""A larger file can only be read in parts."""

CHANGED_WARNING = "Warning: the file changed while it was read. Read it again."

_CHUNK_BYTES = 1024 * 1024


class StopSignal(Protocol):
    """Checked after each chunk of a file; `threading.Event` implements it."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class TextPage:
    """Lines of a file from number `first` on, and the facts that notices mention."""

    lines: tuple[str, ...]
    first: int
    total_lines: int
    cut_lines: tuple[int, ...]
    tokens: int
    is_over_budget: bool
    is_lossy: bool
    has_changed: bool
    seen: FileSeen


def read_page(
    target: FileTarget,
    descriptor: int,
    bounds: Bounds,
    stop: StopSignal,
    wrapper: LineWrapper | None = None,
) -> TextPage:
    """Read the whole file once, in chunks. Blocks; `stop` ends it early.

    `wrapper` splits long lines, so that each part of them can be requested by line number.
    """
    before = os.fstat(descriptor)
    fold = str if wrapper is None else wrapper.wrap
    window, digest, lossy = _scan_file(
        target, descriptor, before.st_size, LineWindow(bounds), stop, fold
    )
    changed = has_changed(descriptor, before)
    whole = len(window.lines) == window.total_lines and not window.cut_lines and not changed
    return TextPage(
        lines=tuple(window.lines),
        first=bounds.first,
        total_lines=window.total_lines,
        cut_lines=tuple(window.cut_lines),
        tokens=-(-window.requested_chars // CHARACTERS_PER_TOKEN),
        is_over_budget=window.is_over_budget,
        is_lossy=lossy,
        has_changed=changed,
        seen=describe_file_state(before, digest, partial=not whole),
    )


def has_changed(descriptor: int, before: os.stat_result) -> bool:
    after = os.fstat(descriptor)
    return (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size)


def _scan_file(
    target: FileTarget,
    descriptor: int,
    size: int,
    window: LineWindow,
    stop: StopSignal,
    wrap: Callable[[str], str],
) -> tuple[LineWindow, str, bool]:
    """Return the filled window, the digest, and whether bytes were undecodable.

    At most `size` bytes are read: a file that grows meanwhile must not be endless.
    """
    digest, stream, remaining = hashlib.sha256(), None, size
    while remaining > 0 and (piece := os.read(descriptor, min(_CHUNK_BYTES, remaining))):
        if stop.is_set():
            raise FileError(f"Reading {target.path} was stopped.")
        stream = stream or _open_stream(target, piece)
        remaining -= len(piece)
        digest.update(piece)
        window.feed(wrap(stream.decode(piece)))
    if stream is not None:
        window.feed(wrap(stream.decode(b"", final=True)))
    window.finish()
    return window, digest.hexdigest(), stream is not None and stream.lossy


def _open_stream(target: FileTarget, head: bytes) -> TextStream:
    encoding = detect_encoding(head)
    if encoding is None:
        raise FileError(
            f"{target.path} is a binary file; Read shows text, notebooks and images (PNG, JPEG, GIF,"
            " WebP, BMP, TIFF)."
            " Use Bash with a program that knows its format, such as `file` or `xxd`."
        )
    return TextStream(encoding)


def build_page_result(
    target: FileTarget, page: TextPage, *, has_range: bool, notices: Sequence[str] = ()
) -> ToolResult:
    """Return the numbered lines and notices.

    With `has_range`, the call requested these lines, so a page that is too large is an error.
    """
    if has_range and page.is_over_budget:
        return build_error_result(
            f"File content ({page.tokens} tokens) exceeds maximum allowed tokens ({MAX_TOKENS})."
            " Use offset and limit parameters to read a smaller part of the file."
        )
    numbered = (f"{number:6}\t{line}" for number, line in enumerate(page.lines, page.first))
    reminders = map(format_reminder, (*notices, *_build_notices(target, page)))
    return build_text_result(
        "\n".join([*numbered, *reminders]),
        response=_build_response(target, page),
        changes=(FileRead(target.key, page.seen),),
    )


def format_reminder(notice: str) -> str:
    return f"<system-reminder>{notice}</system-reminder>"


def _build_response(target: FileTarget, page: TextPage) -> JsonObject:
    return {
        "type": "text",
        "file": {
            "filePath": str(target.path),
            "content": "\n".join(page.lines),
            "numLines": len(page.lines),
            "startLine": page.first,
            "totalLines": page.total_lines,
        },
    }


def _build_notices(target: FileTarget, page: TextPage) -> list[str]:
    notices: list[str] = []
    if page.total_lines == 0:
        notices.append("Warning: the file exists but the contents are empty.")
    elif page.first > page.total_lines:
        notices.append(
            "Warning: the file exists but is shorter than the provided offset"
            f" ({page.first}). The file has {page.total_lines} lines."
        )
    elif page.seen.partial:
        notices.append(_format_partial_notice(target, page))
    if page.is_lossy:
        notices.append(
            "Warning: the file is not valid UTF-8; bytes that could not be read are shown as \ufffd."
        )
    if page.has_changed:
        notices.append(CHANGED_WARNING)
    return notices


def _format_partial_notice(target: FileTarget, page: TextPage) -> str:
    last = page.first + len(page.lines) - 1
    parts = [f"PARTIAL view of {target.path}: lines {page.first}-{last} of {page.total_lines}."]
    if page.cut_lines:
        some = ", ".join(map(str, page.cut_lines[:10])) + (
            ", …" if len(page.cut_lines) > 10 else ""
        )
        parts.append(f"Cut at {MAX_LINE_CHARS} characters: line {some}.")
    parts.append("Use offset and limit to read the rest. This does not count as reading the file.")
    return " ".join(parts)
