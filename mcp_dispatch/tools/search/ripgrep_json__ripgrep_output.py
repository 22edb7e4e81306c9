"""What ripgrep prints, read as it comes: only parsed records decide what is shown, never text.

Each reader is fed in a worker thread, because rules are asked about every file.
"""

import os
import re
from typing import NamedTuple, Protocol

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
