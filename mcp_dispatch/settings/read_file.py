"""One settings file from the disk: strict JSON, bounded, an object at the top."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.json_lines import EMPTY, Layout, layout

LARGEST = 2 * 1024 * 1024
"""Bytes. A settings file is written by hand."""

LARGEST_NOTES = 32 * 1024 * 1024
"""Bytes of a file in which a program keeps its own things, too."""

DEEPEST = 64
"""Levels of objects and lists in each other."""

# Without it a pipe that somebody put in a settings file's place would hold the start up.
_OPEN = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True, slots=True)
class Text:
    """What the file says, and where it says it."""

    value: JsonObject
    layout: Layout


@dataclass(frozen=True, slots=True)
class BrokenFile:
    reason: str


def read_text(path: Path, *, notes: bool = False) -> Text | BrokenFile | None:
    """None where there is no such file. Of a program's `notes`, lines are not told."""
    largest = LARGEST_NOTES if notes else LARGEST
    try:
        content = regular_content(path, largest + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return BrokenFile(f"cannot be read: {reason}")
    if content is None:
        return BrokenFile("not a regular file")
    if len(content) > largest:
        return BrokenFile(f"larger than {largest:,} bytes")
    return _parsed(content, notes=notes)


class Shelf:
    """What each file said when it last made sense: a slip while editing takes no rule away."""

    def __init__(self, kept: Mapping[Path, Text] | None = None) -> None:
        self._kept = dict(kept or {})

    def keep(self, path: Path, text: Text) -> None:
        self._kept[path] = text

    def last(self, path: Path) -> Text | None:
        return self._kept.get(path)

    def forget(self, path: Path) -> None:
        self._kept.pop(path, None)


def regular_content(path: Path, at_most: int) -> bytes | None:
    """The first bytes of a regular file, None of anything else. Raises as `os.open` does."""
    descriptor = os.open(path, _OPEN)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(at_most)
    finally:
        os.close(descriptor)


def _parsed(content: bytes, *, notes: bool) -> Text | BrokenFile:
    try:
        text = content.decode("utf-8-sig")
        value = cast("Json", json.loads(text, parse_constant=_refuse))
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
    if notes:
        return Text(value, EMPTY)
    places = layout(text)
    if places.depth > DEEPEST:
        return BrokenFile(f"nested too deeply: {places.depth} levels, at most {DEEPEST} are read")
    return Text(value, places)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
