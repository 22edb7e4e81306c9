"""Definitions pinned by hash: what a tool was when it was first seen, and what changed since."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.upstream.sanitize import to_one_line

MAX_DIFFERENCES: Final = 20
_MAX_SHOWN_CHARS: Final = 80
_CONTEXT_CHARS: Final = 20


@dataclass(frozen=True, slots=True)
class DefinitionChange:
    """A tool that is no longer what it was: `what` says it line by line, fit to be shown."""

    tool: str
    differences: tuple[str, ...]
    digest: str
    """Of the new definition."""


def hash_definition(definition: JsonObject) -> str:
    """The same for the same definition, in whichever order its keys come."""
    return hashlib.sha256(
        _to_canonical_json(definition).encode("utf-8", "surrogatepass")
    ).hexdigest()


def diff_definitions(
    pinned: Iterable[JsonObject], listed: Iterable[JsonObject]
) -> tuple[tuple[DefinitionChange, ...], tuple[JsonObject, ...]]:
    """The tools that are not what they were pinned as, and the pinned ones that are not listed.

    A tool that nobody has seen before is no change.
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
    """What changed, one line for each place, the first of them."""
    lines = list(_diff_values(before, after, ""))
    if len(lines) > MAX_DIFFERENCES:
        left = len(lines) - MAX_DIFFERENCES
        lines = [*lines[:MAX_DIFFERENCES], f"and {left} more"]
    return tuple(lines)


def _index_by_name(definitions: Iterable[JsonObject]) -> dict[str, JsonObject]:
    """Of two with one name the first, as for the list of tools."""
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
    """How many characters both begin with."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(before), len(after)))


def _format_from(text: str, start: int) -> str:
    """The text from where it begins to differ, a little before that."""
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
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…"


def _to_canonical_json(value: Json) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
