"""The matching lines that ripgrep prints as JSON, a page of them, each cut to a bearable width."""

import base64
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from mcp_dispatch.tools.search.ripgrep_request import Request
from mcp_dispatch.tools.search.root import Sight

MOST_FILES = 200_000
"""Files that are kept to be sorted; a search that finds more is ended."""

_COUNTED = re.compile(rb"([^\0]*)\0(\d+)\n")


class Reader(Protocol):
    """`full` once nothing more is wanted of ripgrep; `found` tells if there is anything to show."""

    @property
    def full(self) -> bool: ...
    @property
    def found(self) -> bool: ...
    def feed(self, chunk: bytes) -> None: ...


class FileHit(NamedTuple):
    """Sorts as it is listed: the newest first."""

    age: int
    relative: str


class FileCount(NamedTuple):
    relative: str
    matches: int


class FileReader:
    """For `--files-with-matches --null`: names, each ended by a NUL."""

    def __init__(self, sight: Sight, most: int = MOST_FILES) -> None:
        self._sight = sight
        self._most = most
        self._rest = b""
        self.hits: list[FileHit] = []

    @property
    def full(self) -> bool:
        return len(self.hits) >= self._most

    @property
    def found(self) -> bool:
        return bool(self.hits)

    def feed(self, chunk: bytes) -> None:
        *names, self._rest = (self._rest + chunk).split(b"\0")
        for name in names:
            relative = relative_name(name)
            status = None if self.full else self._sight.status(relative)
            if status is not None:
                self.hits.append(FileHit(-status.st_mtime_ns, relative))


class CountReader:
    """For `--count --null`: a name, a NUL, a number, a line feed. A name may hold line feeds."""

    def __init__(self, sight: Sight, most: int = MOST_FILES) -> None:
        self._sight = sight
        self._most = most
        self._rest = b""
        self.counts: list[FileCount] = []

    @property
    def full(self) -> bool:
        return len(self.counts) >= self._most

    @property
    def found(self) -> bool:
        return bool(self.counts)

    @property
    def total(self) -> int:
        return sum(file.matches for file in self.counts)

    def feed(self, chunk: bytes) -> None:
        self._rest += chunk
        end = 0
        for record in _COUNTED.finditer(self._rest):
            self._keep(relative_name(record[1]), int(record[2]))
            end = record.end()
        self._rest = self._rest[end:]

    def _keep(self, relative: str, count: int) -> None:
        if not self.full and self._sight.status(relative) is not None:
            self.counts.append(FileCount(relative, count))


def relative_name(name: bytes) -> str:
    return os.fsdecode(name.removeprefix(b"./"))


WIDTH = 500
MOST_CHARACTERS = 2_000_000
"""Of one answer; over it the rest is on the next page."""
LARGEST_RECORD = 8 * 1024 * 1024
_BEFORE_MATCH = 100
_LARGE_HEAD = re.compile(
    rb'\{"type":"(?:match|context)","data":\{"path":(\{"(?:text|bytes)":"(?:[^"\\]|\\.)*"\})'
)


@dataclass(frozen=True, slots=True)
class Line:
    """`number` is None for a line too long to be read to its end."""

    relative: str
    number: int | None
    text: str
    matches: bool


class _Text(msgspec.Struct):
    """Text, or base64 where it is not valid UTF-8."""

    text: str | None = None
    bytes: str | None = None

    def raw(self) -> "bytes":
        if self.text is not None:
            return self.text.encode("utf-8")
        return base64.b64decode(self.bytes or "")


class _Submatch(msgspec.Struct):
    start: int
    end: int


class _Found(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    binary_offset: int | None = None
    submatches: list[_Submatch] = []


class _Record(msgspec.Struct):
    type: str
    data: _Found


class LineReader:
    """Takes the lines of one page and then wants no more. `total` is how many there were so far."""

    def __init__(
        self,
        sight: Sight,
        request: Request,
        *,
        most_characters: int = MOST_CHARACTERS,
        largest_record: int = LARGEST_RECORD,
    ) -> None:
        self._sight = sight
        self._request = request
        self._most_characters = most_characters
        self._largest_record = largest_record
        self._decoder = msgspec.json.Decoder(_Record)
        self._rest = bytearray()
        self._too_large = False
        self._current: tuple[str, bool] | None = None
        self._characters = 0
        self.lines: list[Line] = []
        self.total = 0
        self.more = False
        self.binary = False

    @property
    def full(self) -> bool:
        return self.more

    @property
    def found(self) -> bool:
        return self.total > 0

    def feed(self, chunk: bytes) -> None:
        *ended, begun = chunk.split(b"\n")
        for piece in ended:
            self._grow(piece)
            self._end_record()
        self._grow(begun)

    def _grow(self, piece: bytes) -> None:
        space = self._largest_record - len(self._rest)
        self._too_large = self._too_large or len(piece) > space
        self._rest += piece[:space]

    def _end_record(self) -> None:
        record, too_large = bytes(self._rest), self._too_large
        self._rest, self._too_large = bytearray(), False
        if self.full:
            return
        if too_large:
            self._take_large(record)
            return
        found = self._decoder.decode(record)
        if found.type in ("match", "context"):
            self._take(found.data, matches=found.type == "match")
        elif found.type == "end" and found.data.binary_offset is not None:
            self.binary = True

    def _take(self, found: _Found, *, matches: bool) -> None:
        relative = relative_name(_raw(found.path))
        if not self._shows(relative):
            return
        only = matches and self._request.only_matching
        for number, text in _matches_alone(found) if only else _whole_lines(found):
            self._keep(Line(relative, number, text, matches))

    def _take_large(self, record: bytes) -> None:
        """The number of such a line comes after it, where we do not read."""
        head = _LARGE_HEAD.match(record)
        if head is None:
            return
        relative = relative_name(msgspec.json.decode(head[1], type=_Text).raw())
        if self._shows(relative):
            size = self._largest_record
            self._keep(Line(relative, None, f"[a line of more than {size:,} bytes]", matches=True))

    def _keep(self, line: Line) -> None:
        self.total += 1
        if self.total <= self._request.offset:
            return
        limit = self._request.limit
        page_is_full = limit is not None and len(self.lines) >= limit
        if self.more or page_is_full or self._characters > self._most_characters:
            self.more = True
            return
        self._characters += len(line.text) + len(line.relative)
        self.lines.append(line)

    def _shows(self, relative: str) -> bool:
        """Asked once per file: its records come together."""
        if self._current is None or self._current[0] != relative:
            self._current = (relative, self._sight.status(relative) is not None)
        return self._current[1]


def _raw(text: _Text | None) -> bytes:
    return b"" if text is None else text.raw()


def _whole_lines(found: _Found) -> Iterator[tuple[int | None, str]]:
    """One, or all that a match over several lines touches."""
    raw = _raw(found.lines)
    first = found.submatches[0].start if found.submatches else 0
    start = 0
    for index, line in enumerate(raw.removesuffix(b"\n").split(b"\n")):
        yield _number(found, index), _cut(line, max(0, first - start))
        start += len(line) + 1


def _matches_alone(found: _Found) -> Iterator[tuple[int | None, str]]:
    raw = _raw(found.lines)
    for submatch in found.submatches:
        above = raw.count(b"\n", 0, submatch.start)
        text = raw[submatch.start : submatch.end].removesuffix(b"\n")
        for index, line in enumerate(text.split(b"\n")):
            yield _number(found, above + index), _cut(line, 0)


def _number(found: _Found, index: int) -> int | None:
    return None if found.line_number is None else found.line_number + index


def _cut(line: bytes, match: int) -> str:
    """At most `WIDTH` characters, with the match, which begins at that byte, among them."""
    text = line.removesuffix(b"\r").decode("utf-8", "replace")
    if len(text) <= WIDTH:
        return text
    at = len(line[:match].decode("utf-8", "replace"))
    start = 0 if at <= WIDTH - _BEFORE_MATCH else min(at, len(text)) - _BEFORE_MATCH
    before = f"[{start} characters] … " if start else ""
    left = len(text) - start - WIDTH
    return (
        before + text[start : start + WIDTH] + (f" … [{left} more characters]" if left > 0 else "")
    )
