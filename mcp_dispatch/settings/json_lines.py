"""Where things stand in a JSON text: the line of every value, and keys that occur twice."""

import json
import re
from dataclasses import dataclass
from typing import TypeAlias

from mcp_dispatch.model.json import Json

Path: TypeAlias = tuple[str | int, ...]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True, slots=True)
class Leaf:
    """A string, number, boolean or null. A repeated key gives the same path twice."""

    path: Path
    line: int
    value: Json


@dataclass(frozen=True, slots=True)
class Repeated:
    """A key that its object already has."""

    path: Path
    line: int


@dataclass(frozen=True, slots=True)
class Layout:
    """All of them in the order of the text."""

    leaves: tuple[Leaf, ...]
    repeated: tuple[Repeated, ...]
    depth: int = 0
    """How many objects and lists stand in each other at the deepest place."""


EMPTY = Layout((), ())


def layout(text: str) -> Layout:
    """The layout of `text`, which a JSON parser has already accepted."""
    surveyor = _Surveyor()
    line, measured = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", measured, token.start())
        measured = token.start()
        surveyor.take(token.group(), line)
    return Layout(tuple(surveyor.leaves), tuple(surveyor.repeated), surveyor.depth)


class _Surveyor:
    """Follows the tokens of one text. Keeps a stack of its own: depth is the author's choice."""

    def __init__(self) -> None:
        self.leaves: list[Leaf] = []
        self.repeated: list[Repeated] = []
        self.depth = 0
        self._path: list[str | int] = []
        self._keys: list[set[str] | None] = []
        self._awaits_key = False

    def take(self, token: str, line: int) -> None:
        match token:
            case "{":
                self._enter("", set())
            case "[":
                self._enter(0, None)
            case "}" | "]":
                self._path.pop()
                self._keys.pop()
                self._awaits_key = False
            case ",":
                self._next()
            case ":":
                pass
            case _ if self._awaits_key:
                self._key(json.loads(token), line)
            case _:
                self.leaves.append(Leaf(tuple(self._path), line, json.loads(token)))

    def _enter(self, first: str | int, keys: set[str] | None) -> None:
        self._path.append(first)
        self.depth = max(self.depth, len(self._path))
        self._keys.append(keys)
        self._awaits_key = keys is not None

    def _next(self) -> None:
        last = self._path[-1]
        if isinstance(last, int):
            self._path[-1] = last + 1
        else:
            self._awaits_key = True

    def _key(self, key: str, line: int) -> None:
        self._path[-1] = key
        self._awaits_key = False
        keys = self._keys[-1]
        if keys is None:
            return
        if key in keys:
            self.repeated.append(Repeated(tuple(self._path), line))
        keys.add(key)
