"""Reads a settings file: strict JSON of limited size with an object at the top."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.json_lines import EMPTY_LAYOUT, JsonLayout, parse_layout

MAX_FILE_BYTES = 2 * 1024 * 1024
"""Enough for a file that is written by hand."""

MAX_STATE_FILE_BYTES = 32 * 1024 * 1024
"""For a file in which a program also keeps its own state."""

MAX_NESTING_DEPTH = 64
"""Nested objects and lists."""

# O_NONBLOCK: a named pipe in place of a settings file must not block the start.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The content of a file and the position of each value."""

    value: JsonObject
    layout: JsonLayout


@dataclass(frozen=True, slots=True)
class BrokenFile:
    reason: str


def read_json_file(path: Path, *, is_state_file: bool = False) -> ParsedFile | BrokenFile | None:
    """Return None if the file does not exist. For a state file, lines are not recorded."""
    largest = MAX_STATE_FILE_BYTES if is_state_file else MAX_FILE_BYTES
    try:
        content = read_regular_file(path, largest + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return BrokenFile(f"cannot be read: {reason}")
    if content is None:
        return BrokenFile("not a regular file")
    if len(content) > largest:
        return BrokenFile(f"larger than {largest:,} bytes")
    return _parse_content(content, is_state_file=is_state_file)


class LastGoodFiles:
    """The last valid content of each file: an error while editing removes no rule."""

    def __init__(self, files: Mapping[Path, ParsedFile] | None = None) -> None:
        self._files = dict(files or {})

    def store(self, path: Path, text: ParsedFile) -> None:
        self._files[path] = text

    def find(self, path: Path) -> ParsedFile | None:
        return self._files.get(path)

    def forget(self, path: Path) -> None:
        self._files.pop(path, None)


def read_regular_file(path: Path, max_bytes: int) -> bytes | None:
    """Return the first bytes of a regular file, or None for anything else. Raises like `os.open`."""
    descriptor = os.open(path, _OPEN_FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)
    finally:
        os.close(descriptor)


def _parse_content(content: bytes, *, is_state_file: bool) -> ParsedFile | BrokenFile:
    try:
        text = content.decode("utf-8-sig")
        value = cast("Json", json.loads(text, parse_constant=_reject_constant))
    except UnicodeDecodeError as error:
        return BrokenFile(f"not UTF-8 at byte {error.start}")
    except json.JSONDecodeError as error:
        return BrokenFile(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    except RecursionError:
        return BrokenFile("not JSON that can be read: nested too deeply")
    except ValueError as error:
        return BrokenFile(f"not JSON: {error}")
    if not isinstance(value, dict):
        return BrokenFile("expected an object at the top")
    if is_state_file:
        return ParsedFile(value, EMPTY_LAYOUT)
    places = parse_layout(text)
    if places.depth > MAX_NESTING_DEPTH:
        return BrokenFile(
            f"nested too deeply: {places.depth} levels, at most {MAX_NESTING_DEPTH} are read"
        )
    return ParsedFile(value, places)


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
