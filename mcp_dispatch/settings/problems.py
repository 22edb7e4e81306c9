"""Problems in settings files, described for the person who wrote the file."""

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from mcp_dispatch.model.json import Json
from mcp_dispatch.model.text import escape_unprintable, format_excerpt, truncate

_MAX_VALUE_CHARS = 80


class Severity(Enum):
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class SettingsProblem:
    """One entry that has no effect, or a different effect than its author may expect."""

    severity: Severity
    file: Path
    key: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        place = str(self.file) if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class ProblemReporter:
    """Appends warnings about one key of a file to `problems`."""

    file: Path
    key: str
    problems: list[SettingsProblem]

    def enter_key(self, key: str) -> "ProblemReporter":
        return ProblemReporter(self.file, f"{self.key}.{format_excerpt(key)}", self.problems)

    def enter_item(self, index: int) -> "ProblemReporter":
        return ProblemReporter(self.file, f"{self.key}[{index}]", self.problems)

    def report(self, message: str) -> None:
        file = Path(escape_unprintable(str(self.file)))
        self.problems.append(SettingsProblem(Severity.WARNING, file, self.key, message))

    def report_unexpected(self, expectation: str, value: Json) -> None:
        self.report(f"expected {expectation}, got {describe_value(value)}; it is skipped")


def format_value(value: Json) -> str:
    """Return a scalar as short ASCII JSON. Lists and objects are only named, not shown."""
    return _name_container(value) or truncate(json.dumps(value), _MAX_VALUE_CHARS)


def describe_value(value: Json) -> str:
    """Like `format_value`, for hook settings: a missing value is "nothing", and printable
    characters outside ASCII are shown as they are."""
    if value is None:
        return "nothing"
    return _name_container(value) or format_excerpt(json.dumps(value, ensure_ascii=False))


def _name_container(value: Json) -> str | None:
    # The content of a list or an object is not shown: it may be a secret.
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else None
