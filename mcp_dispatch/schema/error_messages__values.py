"""Values and places of a call's arguments as short, one-line text."""

import json
import re
from collections.abc import Sequence

from mcp_dispatch.model.json import Json

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
