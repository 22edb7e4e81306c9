"""Describes validation errors in messages that a model can act on."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from mcp_dispatch.model.json import Json
from mcp_dispatch.model.text import escape_unprintable, shorten
from mcp_dispatch.schema.excerpt import Excerpt

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError


MAX_VALUE_CHARS = 80
ROOT = "(arguments)"

_PLAIN_NAME = re.compile(r"[A-Za-z_$][\w$-]*", re.ASCII)
_MAX_PATH_CHARS = 240
_MAX_VALUE_LEVELS = 4
_MAX_INTEGER_BITS = 512


def format_value(value: Json) -> str:
    """Return `value` as JSON of at most 80 characters, in time independent of its size."""
    return truncate_line(json.dumps(_truncate_value(value, _MAX_VALUE_LEVELS), ensure_ascii=False))


def truncate_line(text: str) -> str:
    """Return about 80 characters on one line, with unprintable and bidi characters escaped."""
    return escape_unprintable(" ".join(shorten(text, MAX_VALUE_CHARS).splitlines()))


def format_path(path: Sequence[str | int]) -> str:
    """Format a path as `edits[0].old_string`."""
    if not path:
        return ROOT
    text = "".join(_format_step(step) for step in path).removeprefix(".")
    if len(text) <= _MAX_PATH_CHARS:
        return text
    half = _MAX_PATH_CHARS // 2
    return f"{text[:half]}…{text[-half:]}"


def _format_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{format_value(step)}]"


def _truncate_value(value: Json, levels: int) -> Json:
    """Return a copy that is at least as long as the first 80 characters of the JSON."""
    if isinstance(value, str):
        return value[: MAX_VALUE_CHARS + 1]
    if isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, list):
        return (
            [_truncate_value(item, levels - 1) for item in value[:MAX_VALUE_CHARS]]
            if levels
            else "…"
        )
    if isinstance(value, dict):
        return _truncate_fields(value, levels - 1) if levels else "…"
    return value


def _truncate_fields(value: dict[str, Json], levels: int) -> Json:
    first = list(value)[: MAX_VALUE_CHARS // 4]
    return {name[: MAX_VALUE_CHARS + 1]: _truncate_value(value[name], levels) for name in first}


MAX_PROBLEMS = 20
MAX_NAMES = 20

_UNIONS = ("AnyOf", "OneOfNotValid")
_VALUE_ERRORS = ("Type", "Constant", "Enum")


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """The arguments with the errors, and the schema, which is only read for hints."""

    arguments: Excerpt
    schema: Json


def explain_errors(errors: Iterable[ValidationError], context: ErrorContext) -> list[str]:
    """Return one line per distinct error; the last line counts those that are left out."""
    lines: dict[str, None] = {}
    waiting = deque((error, "") for error in errors)
    while waiting:
        error, note = waiting.popleft()
        if tuple(error.instance_path) in context.arguments.truncated_paths:
            continue
        if _read_kind(error) in _UNIONS:
            branches = _filter_branches(error, context)
            if merged := _merge_branches(branches, context):
                lines[merged] = None
            elif all(branches):
                nearest, alternatives = _find_nearest_branch(error, branches)
                note = f" (nearest of {alternatives} alternatives)" if alternatives > 1 else note
                waiting.extendleft((inner, note) for inner in reversed(nearest))
        else:
            lines[_format_error(error, context) + note] = None
    return _limit_lines(list(lines))


def _limit_lines(lines: list[str]) -> list[str]:
    more = len(lines) - MAX_PROBLEMS
    if more <= 0:
        return lines
    return [*lines[:MAX_PROBLEMS], f"and {more} more {'problem' if more == 1 else 'problems'}"]


def _read_kind(error: ValidationError) -> str:
    return type(error.kind).__name__


def _filter_branches(error: ValidationError, context: ErrorContext) -> list[list[ValidationError]]:
    """Return the errors of each alternative, without those caused by truncated arguments."""
    found: list[list[ValidationError]] = error.kind.value
    cut = context.arguments.truncated_paths
    return [[one for one in branch if tuple(one.instance_path) not in cut] for branch in found]


def _merge_branches(branches: list[list[ValidationError]], context: ErrorContext) -> str | None:
    """Return one line if all alternatives expect another value at the same path."""
    if not branches:
        return None
    wanting = [
        {
            tuple(one.instance_path): one
            for one in reversed(branch)
            if _read_kind(one) in _VALUE_ERRORS
        }
        for branch in branches
    ]
    shared = [where for where in wanting[0] if all(where in places for places in wanting)]
    if not shared:
        return None
    where = min(shared, key=len)
    wanted = [text for places in wanting for text in _list_expected(places[where])]
    several = _join_names(list(dict.fromkeys(wanted)), " or ")
    return (
        f"{format_path(where)}: expected {several}, got {format_value(_find_value(context, where))}"
    )


def _list_expected(error: ValidationError) -> list[str]:
    value = error.kind.value
    match _read_kind(error):
        case "Type":
            return _sort_types(value)
        case "Enum":
            return [format_value(option) for option in value]
        case _:
            return [format_value(value)]


def _find_nearest_branch(
    union: ValidationError, branches: list[list[ValidationError]]
) -> tuple[list[ValidationError], int]:
    """Return the nearest alternative, and the number of alternatives for this kind of value."""
    here = len(union.instance_path)
    ranked = sorted(branches, key=lambda branch: _measure_distance(here, branch))
    fitting = [branch for branch in branches if not _measure_distance(here, branch)[0]]
    return ranked[0], len(fitting or branches)


def _measure_distance(
    union_depth: int, branch: Sequence[ValidationError]
) -> tuple[bool, int, int, int]:
    """Return a sort key: the right kind of value, then constants, fewer errors, deeper errors."""
    places = [(len(one.instance_path) - union_depth, _read_kind(one)) for one in branch]
    other_kind = any(depth == 0 and kind in _VALUE_ERRORS for depth, kind in places)
    constants = sum(depth == 1 and kind in ("Constant", "Enum") for depth, kind in places)
    return other_kind, constants, len(branch), -max(depth for depth, _ in places)


def _format_error(error: ValidationError, context: ErrorContext) -> str:
    path = error.instance_path
    kind = _read_kind(error)
    if kind == "Required":
        return f"{format_path([*path, error.kind.value])}: required, but missing"
    if kind in ("AdditionalProperties", "UnevaluatedProperties"):
        return f"{format_path(path)}: {_describe_unexpected(error, error.kind.value, context)}"
    # The validator reports a lone `additionalProperties: false` as a false schema.
    if kind == "FalseSchema" and error.schema_path[-1:] == ["additionalProperties"]:
        fields = _find_value(context, path)
        names = list(fields) if isinstance(fields, dict) else []
        return f"{format_path(path)}: {_describe_unexpected(error, names, context)}"
    if kind == "PropertyNames":
        inner: Any = error.kind.value
        return f"{format_path(path)}: property name {format_value(inner.instance)}: {_describe_expectation(inner)}"
    return f"{format_path(path)}: {_describe_expectation(error)}{_describe_actual(kind, _find_value(context, path))}"


def _describe_unexpected(error: ValidationError, found: list[str], context: ErrorContext) -> str:
    names = _join_names([format_value(name) for name in found])
    noun = "property" if len(found) == 1 else "properties"
    keyword = _resolve_path(context.schema, error.schema_path)
    if isinstance(keyword, dict):
        return f"{noun} {names}: expected to fit {format_value(keyword)}"
    owner = _resolve_path(context.schema, error.schema_path[:-1])
    known = owner.get("properties") if isinstance(owner, dict) else None
    if not isinstance(known, dict):
        return f"unexpected {noun} {names}"
    listed = _join_names([format_value(name) for name in known])
    return f"unexpected {noun} {names}; known properties: {listed or 'none'}"


_Phrase = Callable[[Any], str]

_EXPECTATIONS: dict[str, _Phrase] = {
    "Type": lambda types: f"expected {_join_names(_sort_types(types), ' or ')}",
    "Constant": lambda value: f"expected {format_value(value)}",
    "Enum": lambda options: (
        f"expected one of {_join_names([format_value(one) for one in options])}"
    ),
    "Minimum": lambda limit: f"expected at least {_format_number(limit)}",
    "Maximum": lambda limit: f"expected at most {_format_number(limit)}",
    "ExclusiveMinimum": lambda limit: f"expected more than {_format_number(limit)}",
    "ExclusiveMaximum": lambda limit: f"expected less than {_format_number(limit)}",
    "MultipleOf": lambda number: f"expected a multiple of {_format_number(number)}",
    "MinLength": lambda limit: f"expected at least {limit} characters",
    "MaxLength": lambda limit: f"expected at most {limit} characters",
    "MinItems": lambda limit: f"expected at least {limit} items",
    "MaxItems": lambda limit: f"expected at most {limit} items",
    "AdditionalItems": lambda limit: f"expected at most {limit} items",
    "UnevaluatedItems": lambda indexes: f"unexpected items at {_join_names(indexes)}",
    "MinProperties": lambda limit: f"expected at least {limit} properties",
    "MaxProperties": lambda limit: f"expected at most {limit} properties",
    "Pattern": lambda pattern: f"expected text that matches {format_value(pattern)}",
    "Not": lambda schema: f"expected a value that does not fit {format_value(schema)}",
    "UniqueItems": lambda _: "expected items that all differ",
    "Contains": lambda _: 'the number of items that fit "contains" is out of bounds',
    "FalseSchema": lambda _: "no value is allowed here",
    "OneOfMultipleValid": lambda branches: (
        f"expected to fit exactly one of {len(branches)} alternatives, but fits several"
    ),
    "Format": lambda name: f"expected text in the format {format_value(name)}",
    "ContentEncoding": lambda name: f"expected text encoded as {format_value(name)}",
    "ContentMediaType": lambda name: f"expected text that holds {format_value(name)}",
    "BacktrackLimitExceeded": lambda _: "cannot be matched against its pattern in bounded time",
}
_WITHOUT_VALUE = frozenset({"UnevaluatedItems", "BacktrackLimitExceeded"})


def _describe_expectation(error: ValidationError) -> str:
    phrase = _EXPECTATIONS.get(_read_kind(error))
    return phrase(error.kind.value) if phrase else f'breaks "{error.kind.name}" of the schema'


def _format_number(number: int | float | Decimal) -> str:
    return truncate_line(str(number)) if isinstance(number, Decimal) else format_value(number)


def _sort_types(types: list[str]) -> list[str]:
    return sorted(types, key=lambda name: (name == "null", name))


def _describe_actual(kind: str, value: Json) -> str:
    if kind in _WITHOUT_VALUE:
        return ""
    if isinstance(value, str) and kind in ("MinLength", "MaxLength"):
        return f", got {len(value)}: {format_value(value)}"
    if isinstance(value, dict | list) and kind.startswith(("Min", "Max", "Additional")):
        return f", got {len(value)}"
    return f", got {format_value(value)}"


def _join_names(names: Sequence[str], last_separator: str = ", ") -> str:
    if len(names) > MAX_NAMES:
        return f"{', '.join(names[:MAX_NAMES])} and {len(names) - MAX_NAMES} more"
    return last_separator.join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _find_value(context: ErrorContext, path: Sequence[str | int]) -> Json:
    return _resolve_path(context.arguments.value, path)


def _resolve_path(value: Json, path: Sequence[str | int]) -> Json:
    """Return the value at `path`; None if there is none."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def describe_unlocated_error() -> str:
    """Return the message for errors outside the part of the arguments that was searched."""
    return (
        f"{ROOT}: do not fit the schema, at a place so deep inside or so far down a list that "
        "looking for it would take too long; send a smaller part to see what is wrong"
    )
