"""Reads a stored result page by page, for the scope that it was delivered to."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.model.errors import MCPDispatchError
from mcp_dispatch.results.locks import lock_open_file
from mcp_dispatch.results.store import URI_PREFIX

PAGE_BYTES = 48_000
"""Below every result limit, and a multiple of three so that pages of base64 can be joined."""

_RESULT_ID = re.compile(r"[0-9a-f]{32}")
_TEXT_SUFFIXES = frozenset({".txt", ".json", ".csv", ".html", ".md", ".xml", ".svg"})


class CannotRead(MCPDispatchError):
    """The result cannot be read; the message gives the reason and what to do."""


@dataclass(frozen=True, slots=True)
class ResultPage:
    """The bytes from `start` to `end` of a file of `size` bytes; a text is cut between characters."""

    content: bytes
    start: int
    end: int
    size: int


def is_text(path: Path) -> bool:
    return path.suffix in _TEXT_SUFFIXES


def extract_result_id(reference: str, directory: Path) -> str | None:
    """Return the id in a link, a path or an id; None if there is none."""
    name = reference.removeprefix(URI_PREFIX)
    if Path(name).parent == directory:
        name = Path(name).stem
    return name if _RESULT_ID.fullmatch(name) else None


def find_stored_file(directory: Path, id: str, is_delivered: Callable[[str], bool]) -> Path | None:
    """Return the file of a result that was delivered to the caller."""
    if not _RESULT_ID.fullmatch(id):
        return None
    found = sorted(path for path in directory.glob(f"{id}.*") if is_delivered(str(path)))
    return found[0] if found else None


def read_page(path: Path, offset: int, limit: int = PAGE_BYTES) -> ResultPage:
    """Read one page; the file is not removed meanwhile. Blocks. Raises `CannotRead`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as problem:
        raise CannotRead(f"{path} cannot be read: {problem.strerror}") from problem
    try:
        lock_open_file(descriptor)
        size = os.fstat(descriptor).st_size
        if offset > size:
            raise CannotRead(f"offset {offset} is beyond the end; the result has {size} bytes")
        content = os.pread(descriptor, limit + 4, offset)
    finally:
        os.close(descriptor)
    if not is_text(path):
        return ResultPage(content[:limit], offset, offset + len(content[:limit]), size)
    return _trim_to_characters(content, offset, size, limit)


def _trim_to_characters(content: bytes, offset: int, size: int, limit: int) -> ResultPage:
    start = next(
        (at for at in range(min(4, len(content))) if not _is_continuation_byte(content[at])), 0
    )
    end = len(content)
    if end > limit:
        end = limit
        end -= next(
            (back for back in range(4) if not _is_continuation_byte(content[end - back])), 0
        )
        newline = content.rfind(b"\n", end // 2, end)
        end = newline + 1 if newline > start else end
    return ResultPage(content[start:end], offset + start, offset + end, size)


def _is_continuation_byte(byte: int) -> bool:
    return byte & 0xC0 == 0x80
