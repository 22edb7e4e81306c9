"""Smaller copies of large arguments, in which some of the errors can be found."""

from dataclasses import dataclass

from mcp_dispatch.model.json import Json

MAX_ITEMS = 20
MAX_FIELDS = 200

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """`truncated_paths` are the paths of lists and objects that are not complete."""

    value: Json
    truncated_paths: frozenset[Steps] = frozenset()


def take_excerpt(arguments: Json, levels: int) -> Excerpt:
    """Copy the first items of every list and object, at most `levels` levels deep (at least one)."""
    cut: set[Steps] = set()
    result, children = _copy_container(arguments, (), levels - 1, cut)
    waiting: list[tuple[Json, list[tuple[str | int, Json]], Steps, int]] = []
    waiting.append((result, children, (), 1))
    while waiting:
        target, source, steps, depth = waiting.pop()
        for name, value in source:
            here = (*steps, name)
            copy, children = _copy_container(value, here, levels - 1 - depth, cut)
            _put(target, name, copy)
            waiting.append((copy, children, here, depth + 1))
    return Excerpt(result, frozenset(cut))


def _copy_container(
    value: Json, steps: Steps, levels_below: int, truncated_paths: set[Steps]
) -> tuple[Json, list[tuple[str | int, Json]]]:
    """Return an empty container and the children to copy into it; a scalar is returned as is."""
    if not isinstance(value, dict | list):
        return value, []
    kept: list[tuple[str | int, Json]] = []
    if levels_below > 0:
        several = value.items() if isinstance(value, dict) else enumerate(value)
        limit = MAX_FIELDS if isinstance(value, dict) else MAX_ITEMS
        kept = [child for child, _ in zip(several, range(limit), strict=False)]
    if len(kept) < len(value):
        truncated_paths.add(steps)
    return ({} if isinstance(value, dict) else []), kept


def _put(target: Json, name: str | int, value: Json) -> None:
    if isinstance(target, dict):
        target[str(name)] = value
    elif isinstance(target, list):
        target.append(value)
