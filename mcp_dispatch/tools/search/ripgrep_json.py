"""Readers of the output of ripgrep: file names, counts, and lines as JSON."""

import base64
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from mcp_dispatch.tools.search.ripgrep_request import GrepRequest
from mcp_dispatch.tools.search.root import SearchFilter

MAX_FILES = 200_000
"""Files that are collected for sorting; a search that finds more is stopped."""

_COUNT_RECORD = re.compile(rb"([^\0]*)\0(\d+)\n")


class RipgrepReader(Protocol):
    """Parses the output of ripgrep chunk by chunk, until it `is_full`."""

    @property
    def is_full(self) -> bool: ...
    @property
    def has_results(self) -> bool: ...
    def feed(self, chunk: bytes) -> None: ...


class FileHit(NamedTuple):
    """A file with a match; sorts the newest file first. `age` is the negative mtime in ns."""

    age: int
    relative: str


class FileCount(NamedTuple):
    relative: str
    matches: int


_Entry = TypeVar("_Entry")


class _FileCollector(Generic[_Entry]):
    """Collects one entry for each visible file, up to `max_files`."""

    def __init__(self, search_filter: SearchFilter, max_files: int = MAX_FILES) -> None:
        self._search_filter = search_filter
        self._max_files = max_files
        self._buffer = b""
        self.entries: list[_Entry] = []

    @property
    def is_full(self) -> bool:
        return len(self.entries) >= self._max_files

    @property
    def has_results(self) -> bool:
        return bool(self.entries)

    def _stat_if_needed(self, relative: str) -> os.stat_result | None:
        return None if self.is_full else self._search_filter.stat_file(relative)


class FileReader(_FileCollector[FileHit]):
    """Reads the output of `--files-with-matches --null`: names, each ended by a NUL."""

    def feed(self, chunk: bytes) -> None:
        *names, self._buffer = (self._buffer + chunk).split(b"\0")
        for relative in map(decode_relative_name, names):
            status = self._stat_if_needed(relative)
            if status is not None:
                self.entries.append(FileHit(-status.st_mtime_ns, relative))


class CountReader(_FileCollector[FileCount]):
    """Reads the output of `--count --null`: name, NUL, number, line feed.

    A name may contain line feeds.
    """

    @property
    def total(self) -> int:
        return sum(file.matches for file in self.entries)

    def feed(self, chunk: bytes) -> None:
        self._buffer += chunk
        end = 0
        for record in _COUNT_RECORD.finditer(self._buffer):
            relative = decode_relative_name(record[1])
            if self._stat_if_needed(relative) is not None:
                self.entries.append(FileCount(relative, int(record[2])))
            end = record.end()
        self._buffer = self._buffer[end:]


def decode_relative_name(name: bytes) -> str:
    return os.fsdecode(name.removeprefix(b"./"))


MAX_LINE_CHARS = 500
MAX_PAGE_CHARS = 2_000_000
"""The maximum for one result; the rest is on the next page."""
MAX_RECORD_BYTES = 8 * 1024 * 1024
_CHARS_BEFORE_MATCH = 100
_LARGE_RECORD_HEAD = re.compile(
    rb'\{"type":"(?:match|context)","data":\{"path":(\{"(?:text|bytes)":"(?:[^"\\]|\\.)*"\})'
)


@dataclass(frozen=True, slots=True)
class GrepLine:
    """`number` is None for a line that is too long to be parsed."""

    relative: str
    number: int | None
    text: str
    is_match: bool


class _RipgrepText(msgspec.Struct):
    """Text, or base64 if it is not valid UTF-8."""

    text: str | None = None
    bytes: str | None = None

    def to_bytes(self) -> "bytes":
        if self.text is not None:
            return self.text.encode("utf-8")
        return base64.b64decode(self.bytes or "")


class _Submatch(msgspec.Struct):
    start: int
    end: int


class _RecordData(msgspec.Struct):
    path: _RipgrepText | None = None
    lines: _RipgrepText | None = None
    line_number: int | None = None
    binary_offset: int | None = None
    submatches: list[_Submatch] = []


class _Record(msgspec.Struct):
    type: str
    data: _RecordData


class LineReader:
    """Reads the output of `--json` and collects the lines of one page.

    `total` counts all lines so far, including those before the page.
    """

    def __init__(
        self,
        search_filter: SearchFilter,
        request: GrepRequest,
        *,
        max_chars: int = MAX_PAGE_CHARS,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        self._search_filter = search_filter
        self._request = request
        self._max_chars = max_chars
        self._max_record_bytes = max_record_bytes
        self._decoder = msgspec.json.Decoder(_Record)
        self._buffer = bytearray()
        self._is_too_large = False
        self._current_file: tuple[str, bool] | None = None
        self._characters = 0
        self.lines: list[GrepLine] = []
        self.total = 0
        self.has_more = False
        self.is_binary = False

    @property
    def is_full(self) -> bool:
        return self.has_more

    @property
    def has_results(self) -> bool:
        return self.total > 0

    def feed(self, chunk: bytes) -> None:
        *complete, incomplete = chunk.split(b"\n")
        for piece in complete:
            self._append_piece(piece)
            self._finish_record()
        self._append_piece(incomplete)

    def _append_piece(self, piece: bytes) -> None:
        space = self._max_record_bytes - len(self._buffer)
        self._is_too_large = self._is_too_large or len(piece) > space
        self._buffer += piece[:space]

    def _finish_record(self) -> None:
        record, too_large = bytes(self._buffer), self._is_too_large
        self._buffer, self._is_too_large = bytearray(), False
        if self.is_full:
            return
        if too_large:
            self._add_large_line(record)
            return
        decoded = self._decoder.decode(record)
        if decoded.type in ("match", "context"):
            self._add_record(decoded.data, is_match=decoded.type == "match")
        elif decoded.type == "end" and decoded.data.binary_offset is not None:
            self.is_binary = True

    def _add_record(self, data: _RecordData, *, is_match: bool) -> None:
        relative = decode_relative_name(_decode_raw(data.path))
        if not self._is_visible(relative):
            return
        only = is_match and self._request.only_matching
        for number, text in _iter_matches(data) if only else _iter_lines(data):
            self._add_line(GrepLine(relative, number, text, is_match))

    def _add_large_line(self, record: bytes) -> None:
        """Add a placeholder; the line number follows the line, in the part that is not read."""
        head = _LARGE_RECORD_HEAD.match(record)
        if head is None:
            return
        relative = decode_relative_name(msgspec.json.decode(head[1], type=_RipgrepText).to_bytes())
        if self._is_visible(relative):
            size = self._max_record_bytes
            self._add_line(
                GrepLine(relative, None, f"[a line of more than {size:,} bytes]", is_match=True)
            )

    def _add_line(self, line: GrepLine) -> None:
        self.total += 1
        if self.total <= self._request.offset:
            return
        limit = self._request.limit
        page_is_full = limit is not None and len(self.lines) >= limit
        if self.has_more or page_is_full or self._characters > self._max_chars:
            self.has_more = True
            return
        self._characters += len(line.text) + len(line.relative)
        self.lines.append(line)

    def _is_visible(self, relative: str) -> bool:
        """Check the file once: all its records are consecutive."""
        if self._current_file is None or self._current_file[0] != relative:
            self._current_file = (relative, self._search_filter.stat_file(relative) is not None)
        return self._current_file[1]


def _decode_raw(text: _RipgrepText | None) -> bytes:
    return b"" if text is None else text.to_bytes()


def _iter_lines(data: _RecordData) -> Iterator[tuple[int | None, str]]:
    """Yield number and text of each line of the record."""
    raw = _decode_raw(data.lines)
    first = data.submatches[0].start if data.submatches else 0
    start = 0
    for index, line in enumerate(raw.removesuffix(b"\n").split(b"\n")):
        yield _compute_line_number(data, index), _truncate_line(line, max(0, first - start))
        start += len(line) + 1


def _iter_matches(data: _RecordData) -> Iterator[tuple[int | None, str]]:
    raw = _decode_raw(data.lines)
    for submatch in data.submatches:
        above = raw.count(b"\n", 0, submatch.start)
        text = raw[submatch.start : submatch.end].removesuffix(b"\n")
        for index, line in enumerate(text.split(b"\n")):
            yield _compute_line_number(data, above + index), _truncate_line(line, 0)


def _compute_line_number(data: _RecordData, index: int) -> int | None:
    return None if data.line_number is None else data.line_number + index


def _truncate_line(line: bytes, match_start: int) -> str:
    """Return at most `MAX_LINE_CHARS` characters around the match, which begins at that byte."""
    text = line.removesuffix(b"\r").decode("utf-8", "replace")
    if len(text) <= MAX_LINE_CHARS:
        return text
    match_index = len(line[:match_start].decode("utf-8", "replace"))
    start = 0
    if match_index > MAX_LINE_CHARS - _CHARS_BEFORE_MATCH:
        start = min(match_index, len(text)) - _CHARS_BEFORE_MATCH
    shown = text[start : start + MAX_LINE_CHARS]
    remaining = len(text) - start - MAX_LINE_CHARS
    before = f"[{start} characters] … " if start else ""
    after = f" … [{remaining} more characters]" if remaining > 0 else ""
    return f"{before}{shown}{after}"
