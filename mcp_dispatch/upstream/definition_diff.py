"""Definitions pinned by hash: what a tool was when it was first seen, and what changed since."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.upstream.sanitize import one_line

MOST_DIFFERENCES: Final = 20
_SHOWN: Final = 80
_CONTEXT: Final = 20


@dataclass(frozen=True, slots=True)
class Change:
    """A tool that is no longer what it was: `what` says it line by line, fit to be shown."""

    tool: str
    what: tuple[str, ...]
    digest: str
    """Of the new definition."""


def digest(definition: JsonObject) -> str:
    """The same for the same definition, in whichever order its keys come."""
    return hashlib.sha256(_canonical(definition).encode("utf-8", "surrogatepass")).hexdigest()


def changes(
    pinned: Iterable[JsonObject], listed: Iterable[JsonObject]
) -> tuple[tuple[Change, ...], tuple[JsonObject, ...]]:
    """The tools that are not what they were pinned as, and the pinned ones that are not listed.

    A tool that nobody has seen before is no change.
    """
    before = _by_name(pinned)
    after = _by_name(listed)
    changed = [
        Change(name, differences(before[name], now), digest(now))
        for name, now in after.items()
        if name in before and _canonical(before[name]) != _canonical(now)
    ]
    gone = tuple(before[name] for name in before if name not in after)
    return tuple(changed), gone


def differences(before: JsonObject, after: JsonObject) -> tuple[str, ...]:
    """What changed, one line for each place, the first of them."""
    lines = list(_differences(before, after, ""))
    if len(lines) > MOST_DIFFERENCES:
        left = len(lines) - MOST_DIFFERENCES
        lines = [*lines[:MOST_DIFFERENCES], f"and {left} more"]
    return tuple(lines)


def _by_name(definitions: Iterable[JsonObject]) -> dict[str, JsonObject]:
    """Of two with one name the first, as for the list of tools."""
    found: dict[str, JsonObject] = {}
    for definition in definitions:
        name = definition.get("name")
        if isinstance(name, str):
            found.setdefault(name, definition)
    return found


def _differences(before: Json, after: Json, place: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            name = one_line(key)[:_SHOWN]
            within = f"{place}.{name}" if place else name
            if key not in after:
                yield f"{within}: removed (was {_shown(before[key])})"
            elif key not in before:
                yield f"{within}: added: {_shown(after[key])}"
            else:
                yield from _differences(before[key], after[key], within)
    elif isinstance(before, list) and isinstance(after, list) and _are_words(before, after):
        yield from _of_words(before, after, place)
    elif isinstance(before, str) and isinstance(after, str) and before != after:
        start = max(0, _common(before, after) - _CONTEXT)
        yield f"{place}: {_part(before, start)} → {_part(after, start)}"
    elif _canonical(before) != _canonical(after):
        yield f"{place}: {_shown(before)} → {_shown(after)}"


def _common(before: str, after: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(before), len(after)))


def _part(text: str, start: int) -> str:
    """The text from where it begins to differ, a little before that."""
    return f"{'…' if start else ''}{_shown(text[start:])}"


def _are_words(*lists: Sequence[Json]) -> bool:
    return all(isinstance(each, str) for items in lists for each in items)


def _of_words(before: Sequence[Json], after: Sequence[Json], place: str) -> Iterator[str]:
    added = [_shown(each) for each in after if each not in before]
    removed = [_shown(each) for each in before if each not in after]
    if added:
        yield f"{place}: added {', '.join(added)[:_SHOWN]}"
    if removed:
        yield f"{place}: removed {', '.join(removed)[:_SHOWN]}"
    if not added and not removed and before != after:
        yield f"{place}: in another order"


def _shown(value: Json) -> str:
    text = one_line(json.dumps(value, ensure_ascii=False, sort_keys=True))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
