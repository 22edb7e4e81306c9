"""What is wrong in a settings file, in words for the person who wrote it."""

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from mcp_dispatch.model.json import Json

_SHOWN = 80


class Severity(Enum):
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Problem:
    """One entry that has no effect, or not the one its author may expect."""

    severity: Severity
    file: Path
    key: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        place = str(self.file) if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


def shown(value: Json) -> str:
    """A value for a message: as JSON, short; of lists and objects only that they are one."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
