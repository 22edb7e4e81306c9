"""Compares tool definitions with those that were seen first, and describes the differences."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import truncate
from mcp_dispatch.upstream.sanitize import to_one_line

MAX_DIFFERENCES: Final = 20
_MAX_SHOWN_CHARS: Final = 80
_CONTEXT_CHARS: Final = 20


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A tool whose definition has changed; `differences` are lines that are safe to display."""

    tool: str
    differences: tuple[str, ...]
    digest: str
    """The hash of the new definition."""


def hash_definition(definition: JsonObject) -> str:
    """Return a hash that does not depend on the order of keys."""
    return hashlib.sha256(
        _to_canonical_json(definition).encode("utf-8", "surrogatepass")
    ).hexdigest()


def diff_definitions(
    pinned: Iterable[JsonObject], listed: Iterable[JsonObject]
) -> tuple[tuple[DefinitionChange, ...], tuple[JsonObject, ...]]:
    """Return the tools that differ from their pinned definition, and the pinned ones not listed.

    A tool that was not seen before is not a change.
    """
    before = _index_by_name(pinned)
    after = _index_by_name(listed)
    changed = [
        DefinitionChange(name, describe_differences(before[name], now), hash_definition(now))
        for name, now in after.items()
        if name in before and _to_canonical_json(before[name]) != _to_canonical_json(now)
    ]
    gone = tuple(before[name] for name in before if name not in after)
    return tuple(changed), gone


def describe_differences(before: JsonObject, after: JsonObject) -> tuple[str, ...]:
    """Return one line for each difference, at most `MAX_DIFFERENCES`."""
    lines = list(_diff_values(before, after, ""))
    if len(lines) > MAX_DIFFERENCES:
        left = len(lines) - MAX_DIFFERENCES
        lines = [*lines[:MAX_DIFFERENCES], f"and {left} more"]
    return tuple(lines)


def _index_by_name(definitions: Iterable[JsonObject]) -> dict[str, JsonObject]:
    """Index by name; the first of two definitions with one name counts."""
    found: dict[str, JsonObject] = {}
    for definition in definitions:
        name = definition.get("name")
        if isinstance(name, str):
            found.setdefault(name, definition)
    return found


def _diff_values(before: Json, after: Json, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            name = to_one_line(key)[:_MAX_SHOWN_CHARS]
            within = f"{path}.{name}" if path else name
            if key not in after:
                yield f"{within}: removed (was {_format_value(before[key])})"
            elif key not in before:
                yield f"{within}: added: {_format_value(after[key])}"
            else:
                yield from _diff_values(before[key], after[key], within)
    elif isinstance(before, list) and isinstance(after, list) and _has_only_strings(before, after):
        yield from _diff_string_lists(before, after, path)
    elif isinstance(before, str) and isinstance(after, str) and before != after:
        start = max(0, _count_common_prefix(before, after) - _CONTEXT_CHARS)
        yield f"{path}: {_format_from(before, start)} → {_format_from(after, start)}"
    elif _to_canonical_json(before) != _to_canonical_json(after):
        yield f"{path}: {_format_value(before)} → {_format_value(after)}"


def _count_common_prefix(before: str, after: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(before), len(after)))


def _format_from(text: str, start: int) -> str:
    """Format the text from `start`, marked with an ellipsis if something comes before it."""
    return f"{'…' if start else ''}{_format_value(text[start:])}"


def _has_only_strings(*lists: Sequence[Json]) -> bool:
    return all(isinstance(each, str) for items in lists for each in items)


def _diff_string_lists(before: Sequence[Json], after: Sequence[Json], path: str) -> Iterator[str]:
    added = [_format_value(each) for each in after if each not in before]
    removed = [_format_value(each) for each in before if each not in after]
    if added:
        yield f"{path}: added {', '.join(added)[:_MAX_SHOWN_CHARS]}"
    if removed:
        yield f"{path}: removed {', '.join(removed)[:_MAX_SHOWN_CHARS]}"
    if not added and not removed and before != after:
        yield f"{path}: in another order"


def _format_value(value: Json) -> str:
    text = to_one_line(json.dumps(value, ensure_ascii=False, sort_keys=True))
    return truncate(text, _MAX_SHOWN_CHARS)


def _to_canonical_json(value: Json) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
