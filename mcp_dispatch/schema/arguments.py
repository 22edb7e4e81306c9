"""Checks arguments before validation: they must be plain JSON of limited depth and size."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from mcp_dispatch.model.json import Json
from mcp_dispatch.schema.error_messages import ROOT, format_path, format_value

DEPTH_LIMIT = 200
VALUE_LIMIT = 5_000_000
# With `uniqueItems` the validator compares integers beyond 64 bits pair by pair.
WIDE_INTEGER_LIMIT = 500
MAX_INTEGER_BITS = 14_000

_NARROW_BITS = 63
_PLAIN_TYPES = frozenset({bool, list, type(None)})
_Trail: TypeAlias = "tuple[_Trail, str | int] | None"


@dataclass(frozen=True, slots=True)
class ArgumentSize:
    """The number of JSON values and of characters in strings, property names included."""

    values: int
    characters: int


def measure_arguments(arguments: Json) -> ArgumentSize | str:
    """Return the size of `arguments`, or a one-line problem if they cannot be validated."""
    values = characters = wide = 0
    waiting: list[tuple[Json, int, _Trail]] = [(arguments, 0, None)]
    while waiting:
        value, depth, trail = waiting.pop()
        if fault := _describe_fault(value) or _describe_excess(values, depth, wide):
            return f"{_format_trail(trail)}: {fault}"
        values += 1
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, dict):
            characters += sum(map(len, value))
            waiting.extend((inner, depth + 1, (trail, name)) for name, inner in value.items())
        elif isinstance(value, list):
            waiting.extend((inner, depth + 1, (trail, i)) for i, inner in enumerate(value))
        elif isinstance(value, int) and value.bit_length() > _NARROW_BITS:
            wide += 1
    return ArgumentSize(values, characters)


def _describe_fault(value: Json) -> str | None:
    kind = type(value)
    if isinstance(value, str):
        return None if _is_unicode(value) else _SURROGATE_FAULT
    if isinstance(value, dict):
        return _describe_name_fault(value)
    if kind in _PLAIN_TYPES:
        return None
    if isinstance(value, float):
        return None if isfinite(value) else f"{format_value(value)} is not a JSON number"
    if isinstance(value, int):
        bits = value.bit_length()
        return None if bits <= MAX_INTEGER_BITS else f"an integer of {bits} bits is too large"
    return f"a Python {kind.__name__} is not JSON"


def _describe_name_fault(value: dict[str, Json]) -> str | None:
    names: list[object] = list(value)
    for name in names:
        if not isinstance(name, str):
            return f"a property name of Python type {type(name).__name__} is not JSON"
        if not _is_unicode(name):
            return f"the property name {format_value(name)} {_SURROGATE_FAULT}"
    return None


def _describe_excess(values: int, depth: int, wide_integers: int) -> str | None:
    if depth > DEPTH_LIMIT:
        return f"nested more than {DEPTH_LIMIT} levels deep; send a flatter value"
    if values >= VALUE_LIMIT:
        return f"more than {VALUE_LIMIT} values in one call; send fewer"
    if wide_integers > WIDE_INTEGER_LIMIT:
        return f"more than {WIDE_INTEGER_LIMIT} integers beyond 64 bits in one call; send fewer"
    return None


_SURROGATE_FAULT = "holds half of a surrogate pair, which is not a character; send whole characters"


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _format_trail(trail: _Trail) -> str:
    steps: list[str | int] = []
    while trail is not None and len(steps) < DEPTH_LIMIT:
        trail, step = trail
        steps.append(step)
    return format_path(steps[::-1]) if steps else ROOT
