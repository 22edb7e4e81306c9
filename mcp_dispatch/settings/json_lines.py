"""Finds the line of every value in a JSON text, and keys that occur twice."""

import json
import re
from dataclasses import dataclass
from typing import TypeAlias

from mcp_dispatch.model.json import Json

JsonPath: TypeAlias = tuple[str | int, ...]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True, slots=True)
class JsonLeaf:
    """A string, number, boolean or null. A repeated key gives the same path twice."""

    path: JsonPath
    line: int
    value: Json


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    """A key that its object already has."""

    path: JsonPath
    line: int


@dataclass(frozen=True, slots=True)
class JsonLayout:
    """The leaves and repeated keys in the order of the text."""

    leaves: tuple[JsonLeaf, ...]
    repeated_keys: tuple[RepeatedKey, ...]
    depth: int = 0
    """The deepest nesting of objects and lists."""


EMPTY_LAYOUT = JsonLayout((), ())


def parse_layout(text: str) -> JsonLayout:
    """Return the layout of `text`, which must be valid JSON."""
    parser = _LayoutParser()
    line, measured = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", measured, token.start())
        measured = token.start()
        parser.feed(token.group(), line)
    return JsonLayout(tuple(parser.leaves), tuple(parser.repeated_keys), parser.depth)


class _LayoutParser:
    """Follows the tokens of one text with a stack, because recursion depth would be input-controlled."""

    def __init__(self) -> None:
        self.leaves: list[JsonLeaf] = []
        self.repeated_keys: list[RepeatedKey] = []
        self.depth = 0
        self._path: list[str | int] = []
        self._keys: list[set[str] | None] = []
        self._expects_key = False

    def feed(self, token: str, line: int) -> None:
        match token:
            case "{":
                self._enter("", set())
            case "[":
                self._enter(0, None)
            case "}" | "]":
                self._path.pop()
                self._keys.pop()
                self._expects_key = False
            case ",":
                self._start_next_item()
            case ":":
                pass
            case _ if self._expects_key:
                self._add_key(json.loads(token), line)
            case _:
                self.leaves.append(JsonLeaf(tuple(self._path), line, json.loads(token)))

    def _enter(self, first_step: str | int, keys: set[str] | None) -> None:
        self._path.append(first_step)
        self.depth = max(self.depth, len(self._path))
        self._keys.append(keys)
        self._expects_key = keys is not None

    def _start_next_item(self) -> None:
        last = self._path[-1]
        if isinstance(last, int):
            self._path[-1] = last + 1
        else:
            self._expects_key = True

    def _add_key(self, key: str, line: int) -> None:
        self._path[-1] = key
        self._expects_key = False
        keys = self._keys[-1]
        if keys is None:
            return
        if key in keys:
            self.repeated_keys.append(RepeatedKey(tuple(self._path), line))
        keys.add(key)
