"""What is wrong with arguments, in words a model can act on."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from mcp_dispatch.model.json import Json
from mcp_dispatch.schema.excerpt import Excerpt

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError


SHOWN_CHARACTERS = 80
ROOT = "(arguments)"

_PLAIN_NAME = re.compile(r"[A-Za-z_$][\w$-]*", re.ASCII)
_PLACE_CHARACTERS = 240
_SHOWN_LEVELS = 4
_SHOWN_BITS = 512


def shown(value: Json) -> str:
    """`value` as JSON, cut to 80 characters, in time that does not depend on its size."""
    return cut(json.dumps(_excerpt(value, _SHOWN_LEVELS), ensure_ascii=False))


def cut(text: str) -> str:
    """About 80 characters on one line; what cannot be printed, or turns the line around, is
    shown as an escape."""
    short = text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
    line = " ".join(short.splitlines())
    return "".join(each if each.isprintable() else _escaped(each) for each in line)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def place(path: Sequence[str | int]) -> str:
    """A path in the form a model writes it: `edits[0].old_string`."""
    if not path:
        return ROOT
    text = "".join(_step(step) for step in path).removeprefix(".")
    if len(text) <= _PLACE_CHARACTERS:
        return text
    half = _PLACE_CHARACTERS // 2
    return f"{text[:half]}…{text[-half:]}"


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{shown(step)}]"


def _excerpt(value: Json, levels: int) -> Json:
    """The part of `value` that can reach the first 80 characters, and a little more."""
    if isinstance(value, str):
        return value[: SHOWN_CHARACTERS + 1]
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, list):
        return [_excerpt(item, levels - 1) for item in value[:SHOWN_CHARACTERS]] if levels else "…"
    if isinstance(value, dict):
        return _excerpt_fields(value, levels - 1) if levels else "…"
    return value


def _excerpt_fields(value: dict[str, Json], levels: int) -> Json:
    first = list(value)[: SHOWN_CHARACTERS // 4]
    return {name[: SHOWN_CHARACTERS + 1]: _excerpt(value[name], levels) for name in first}


PROBLEMS_SHOWN = 20
NAMES_SHOWN = 20

_UNIONS = ("AnyOf", "OneOfNotValid")
_KIND_OF_VALUE = ("Type", "Constant", "Enum")


@dataclass(frozen=True, slots=True)
class Case:
    """What the errors were found in. The schema is only read for hints."""

    arguments: Excerpt
    schema: Json


def explain(errors: Iterable[ValidationError], case: Case) -> list[str]:
    """One line per error, without repetition; the last line says how many more there are."""
    lines: dict[str, None] = {}
    waiting = deque((error, "") for error in errors)
    while waiting:
        error, note = waiting.popleft()
        if tuple(error.instance_path) in case.arguments.cut:
            continue
        if _kind(error) in _UNIONS:
            branches = _branches(error, case)
            if merged := _merged(branches, case):
                lines[merged] = None
            elif all(branches):
                nearest, alternatives = _nearest(error, branches)
                note = f" (nearest of {alternatives} alternatives)" if alternatives > 1 else note
                waiting.extendleft((inner, note) for inner in reversed(nearest))
        else:
            lines[_line(error, case) + note] = None
    return _capped(list(lines))


def _capped(lines: list[str]) -> list[str]:
    more = len(lines) - PROBLEMS_SHOWN
    if more <= 0:
        return lines
    return [*lines[:PROBLEMS_SHOWN], f"and {more} more {'problem' if more == 1 else 'problems'}"]


def _kind(error: ValidationError) -> str:
    return type(error.kind).__name__


def _branches(error: ValidationError, case: Case) -> list[list[ValidationError]]:
    """The errors of each alternative, without those that come from a cut in the arguments."""
    found: list[list[ValidationError]] = error.kind.value
    cut = case.arguments.cut
    return [[one for one in branch if tuple(one.instance_path) not in cut] for branch in found]


def _merged(branches: list[list[ValidationError]], case: Case) -> str | None:
    """One line where all alternatives want another value at the same place."""
    if not branches:
        return None
    wanting = [
        {tuple(one.instance_path): one for one in reversed(branch) if _kind(one) in _KIND_OF_VALUE}
        for branch in branches
    ]
    shared = [where for where in wanting[0] if all(where in places for places in wanting)]
    if not shared:
        return None
    where = min(shared, key=len)
    wanted = [text for places in wanting for text in _wanted(places[where])]
    several = _listed(list(dict.fromkeys(wanted)), " or ")
    return f"{place(where)}: expected {several}, got {shown(_value(case, where))}"


def _wanted(error: ValidationError) -> list[str]:
    value = error.kind.value
    match _kind(error):
        case "Type":
            return _types(value)
        case "Enum":
            return [shown(option) for option in value]
        case _:
            return [shown(value)]


def _nearest(
    union: ValidationError, branches: list[list[ValidationError]]
) -> tuple[list[ValidationError], int]:
    """The nearest alternative, and how many there are for this kind of value."""
    here = len(union.instance_path)
    ranked = sorted(branches, key=lambda branch: _distance(here, branch))
    fitting = [branch for branch in branches if not _distance(here, branch)[0]]
    return ranked[0], len(fitting or branches)


def _distance(here: int, branch: Sequence[ValidationError]) -> tuple[bool, int, int, int]:
    """Smaller is nearer: the right kind of value, the right constants, fewer errors, deeper ones."""
    places = [(len(one.instance_path) - here, _kind(one)) for one in branch]
    other_kind = any(depth == 0 and kind in _KIND_OF_VALUE for depth, kind in places)
    constants = sum(depth == 1 and kind in ("Constant", "Enum") for depth, kind in places)
    return other_kind, constants, len(branch), -max(depth for depth, _ in places)


def _line(error: ValidationError, case: Case) -> str:
    path = error.instance_path
    kind = _kind(error)
    if kind == "Required":
        return f"{place([*path, error.kind.value])}: required, but missing"
    if kind in ("AdditionalProperties", "UnevaluatedProperties"):
        return f"{place(path)}: {_unexpected(error, error.kind.value, case)}"
    # An `additionalProperties: false` that stands alone is reported as a value no schema allows.
    if kind == "FalseSchema" and error.schema_path[-1:] == ["additionalProperties"]:
        fields = _value(case, path)
        names = list(fields) if isinstance(fields, dict) else []
        return f"{place(path)}: {_unexpected(error, names, case)}"
    if kind == "PropertyNames":
        inner: Any = error.kind.value
        return f"{place(path)}: property name {shown(inner.instance)}: {_expectation(inner)}"
    return f"{place(path)}: {_expectation(error)}{_got(kind, _value(case, path))}"


def _unexpected(error: ValidationError, found: list[str], case: Case) -> str:
    names = _listed([shown(name) for name in found])
    noun = "property" if len(found) == 1 else "properties"
    keyword = _at(case.schema, error.schema_path)
    if isinstance(keyword, dict):
        return f"{noun} {names}: expected to fit {shown(keyword)}"
    owner = _at(case.schema, error.schema_path[:-1])
    known = owner.get("properties") if isinstance(owner, dict) else None
    if not isinstance(known, dict):
        return f"unexpected {noun} {names}"
    listed = _listed([shown(name) for name in known])
    return f"unexpected {noun} {names}; known properties: {listed or 'none'}"


_Phrase = Callable[[Any], str]

_EXPECTATIONS: dict[str, _Phrase] = {
    "Type": lambda types: f"expected {_listed(_types(types), ' or ')}",
    "Constant": lambda value: f"expected {shown(value)}",
    "Enum": lambda options: f"expected one of {_listed([shown(one) for one in options])}",
    "Minimum": lambda limit: f"expected at least {_number(limit)}",
    "Maximum": lambda limit: f"expected at most {_number(limit)}",
    "ExclusiveMinimum": lambda limit: f"expected more than {_number(limit)}",
    "ExclusiveMaximum": lambda limit: f"expected less than {_number(limit)}",
    "MultipleOf": lambda number: f"expected a multiple of {_number(number)}",
    "MinLength": lambda limit: f"expected at least {limit} characters",
    "MaxLength": lambda limit: f"expected at most {limit} characters",
    "MinItems": lambda limit: f"expected at least {limit} items",
    "MaxItems": lambda limit: f"expected at most {limit} items",
    "AdditionalItems": lambda limit: f"expected at most {limit} items",
    "UnevaluatedItems": lambda indexes: f"unexpected items at {_listed(indexes)}",
    "MinProperties": lambda limit: f"expected at least {limit} properties",
    "MaxProperties": lambda limit: f"expected at most {limit} properties",
    "Pattern": lambda pattern: f"expected text that matches {shown(pattern)}",
    "Not": lambda schema: f"expected a value that does not fit {shown(schema)}",
    "UniqueItems": lambda _: "expected items that all differ",
    "Contains": lambda _: 'the number of items that fit "contains" is out of bounds',
    "FalseSchema": lambda _: "no value is allowed here",
    "OneOfMultipleValid": lambda branches: (
        f"expected to fit exactly one of {len(branches)} alternatives, but fits several"
    ),
    "Format": lambda name: f"expected text in the format {shown(name)}",
    "ContentEncoding": lambda name: f"expected text encoded as {shown(name)}",
    "ContentMediaType": lambda name: f"expected text that holds {shown(name)}",
    "BacktrackLimitExceeded": lambda _: "cannot be matched against its pattern in bounded time",
}
_WITHOUT_VALUE = frozenset({"UnevaluatedItems", "BacktrackLimitExceeded"})


def _expectation(error: ValidationError) -> str:
    phrase = _EXPECTATIONS.get(_kind(error))
    return phrase(error.kind.value) if phrase else f'breaks "{error.kind.name}" of the schema'


def _number(number: int | float | Decimal) -> str:
    return cut(str(number)) if isinstance(number, Decimal) else shown(number)


def _types(types: list[str]) -> list[str]:
    return sorted(types, key=lambda name: (name == "null", name))


def _got(kind: str, value: Json) -> str:
    if kind in _WITHOUT_VALUE:
        return ""
    if isinstance(value, str) and kind in ("MinLength", "MaxLength"):
        return f", got {len(value)}: {shown(value)}"
    if isinstance(value, dict | list) and kind.startswith(("Min", "Max", "Additional")):
        return f", got {len(value)}"
    return f", got {shown(value)}"


def _listed(names: Sequence[str], last: str = ", ") -> str:
    if len(names) > NAMES_SHOWN:
        return f"{', '.join(names[:NAMES_SHOWN])} and {len(names) - NAMES_SHOWN} more"
    return last.join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _value(case: Case, path: Sequence[str | int]) -> Json:
    return _at(case.arguments.value, path)


def _at(value: Json, path: Sequence[str | int]) -> Json:
    """What stands at `path`; None where the path leads nowhere."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def unexplained() -> str:
    """For arguments that are wrong somewhere beyond the part that could be searched."""
    return (
        f"{ROOT}: do not fit the schema, at a place so deep inside or so far down a list that "
        "looking for it would take too long; send a smaller part to see what is wrong"
    )
