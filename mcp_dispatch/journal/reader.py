"""Reads from journals which tools clients of running processes have found."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mcp_dispatch.model.json import Json

ACTIVATED_KEY: Final = "activated"


def find_activated_tools(directory: Path) -> frozenset[str]:
    """Return the rule names of the tools found. Lines that cannot be parsed are skipped."""
    return frozenset(
        name
        for file in sorted(directory.glob("*.jsonl"))
        if _is_running(file.name)
        for name in _read_activated(file)
    )


def _is_running(name: str) -> bool:
    """Whether the process whose id is part of the file name is running."""
    number = name.split("-")[3:4]
    if not number or not number[0].isdecimal():
        return False
    try:
        os.kill(int(number[0]), 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _read_activated(file: Path) -> Iterator[str]:
    try:
        with file.open("rb") as lines:
            for line in lines:
                # Most lines have no such key and need not be parsed.
                if f'"{ACTIVATED_KEY}"'.encode() in line:
                    yield from _parse_names(line)
    except OSError:
        return


def _parse_names(line: bytes) -> list[str]:
    try:
        entry: Json = json.loads(line)
    except (ValueError, RecursionError):
        return []
    names = entry.get(ACTIVATED_KEY) if isinstance(entry, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
