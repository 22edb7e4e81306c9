"""What is wrong in a settings file, in words for the person who wrote it."""

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from mcp_dispatch.model.json import Json
from mcp_dispatch.model.text import escape_unprintable, format_excerpt

_MAX_VALUE_CHARS = 80


class Severity(Enum):
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class SettingsProblem:
    """One entry that has no effect, or not the one its author may expect."""

    severity: Severity
    file: Path
    key: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        place = str(self.file) if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


def format_value(value: Json) -> str:
    """A value for a message: as JSON, short; of lists and objects only that they are one."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}…"


@dataclass(frozen=True, slots=True)
class ProblemReporter:
    """Collects problems about one place of a file."""

    file: str
    key: str
    problems: list[str]

    def enter_key(self, key: str) -> "ProblemReporter":
        return ProblemReporter(self.file, f"{self.key}.{format_excerpt(key)}", self.problems)

    def enter_item(self, index: int) -> "ProblemReporter":
        return ProblemReporter(self.file, f"{self.key}[{index}]", self.problems)

    def report(self, problem: str) -> None:
        self.problems.append(f"{escape_unprintable(self.file)}: {self.key}: {problem}")

    def report_unexpected(self, expectation: str, value: Json) -> None:
        self.report(f"expected {expectation}, got {describe_value(value)}; it is skipped")


def describe_value(value: Json) -> str:
    """Short and as JSON; of lists and objects only that they are one, for they may hold secrets."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return format_excerpt(json.dumps(value, ensure_ascii=False))
