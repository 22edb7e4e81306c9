"""What is wrong with a settings file, in words: file, key, value, expectation."""

import json
from dataclasses import dataclass

from mcp_dispatch.model.json import Json
from mcp_dispatch.model.text__text import shown, visible


@dataclass(frozen=True, slots=True)
class Report:
    """Collects problems about one place of a file."""

    file: str
    key: str
    problems: list[str]

    def at(self, key: str) -> "Report":
        return Report(self.file, f"{self.key}.{shown(key)}", self.problems)

    def item(self, index: int) -> "Report":
        return Report(self.file, f"{self.key}[{index}]", self.problems)

    def say(self, problem: str) -> None:
        self.problems.append(f"{visible(self.file)}: {self.key}: {problem}")

    def expected(self, expectation: str, value: Json) -> None:
        self.say(f"expected {expectation}, got {value_shown(value)}; it is skipped")


def value_shown(value: Json) -> str:
    """Short and as JSON; of lists and objects only that they are one, for they may hold secrets."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return shown(json.dumps(value, ensure_ascii=False))
