"""What a server says of its tools, made fit for models and people: bounded, nothing hidden in it."""

import re
from collections.abc import Callable
from typing import Final

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import escaped

LONGEST_TEXT: Final = 20_000
"""Characters of one description. What a tool does fits in far fewer."""

DEEPEST: Final = 60

# Control characters but for tab and line ends; what reorders text, has no width, or carries a
# second text unseen (tags, extra variation selectors). The joiners that emoji and several scripts
# are written with stay.
_HIDDEN: Final = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e"
    "\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\U000e0000-\\U000e01ef]"
)
_LINES: Final = re.compile("[\\t\\n\\r]")
_TEXTS: Final = frozenset({"description", "title"})
# Below these, keys are names or data and no words of a schema.
_NAMES: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_DATA: Final = frozenset({"const", "enum", "default", "examples", "required"})


def hides_something(text: str) -> bool:
    return _HIDDEN.search(text) is not None


def visible(text: str) -> str:
    """Every hidden character as an escape that can be read."""
    return _HIDDEN.sub(_escape, text)


def one_line(text: str) -> str:
    """The same, with line ends and tabs as escapes too."""
    return _LINES.sub(_escape, visible(text))


def readable(definition: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """The definition with its titles and descriptions bounded and visible, and where that changed
    anything. What decides a call (names, schemas, values) stays as it is. Nothing to do gives the
    same object back."""
    found: list[str] = []

    def text(value: str, where: str) -> str:
        shown = visible(value)
        if shown != value:
            found.append(f"{where} has hidden characters, which are shown as escapes")
        if len(shown) <= LONGEST_TEXT:
            return shown
        found.append(f"{where} has {len(value)} characters, of which {LONGEST_TEXT} are kept")
        return f"{shown[:LONGEST_TEXT]}… ({len(shown) - LONGEST_TEXT} more characters)"

    changed: JsonObject = {}
    for key, value in definition.items():
        if key in _TEXTS and isinstance(value, str):
            changed[key] = text(value, key)
        elif key == "annotations" and isinstance(value, dict):
            changed[key] = _annotations(value, text)
        elif key in ("inputSchema", "outputSchema"):
            changed[key] = _schema(value, key, text, DEEPEST)
    return ({**definition, **changed}, tuple(found)) if found else (definition, ())


_Text = Callable[[str, str], str]


def _annotations(annotations: JsonObject, text: _Text) -> JsonObject:
    title = annotations.get("title")
    if not isinstance(title, str):
        return annotations
    return {**annotations, "title": text(title, "annotations.title")}


def _schema(value: Json, where: str, text: _Text, depth: int) -> Json:
    """Deeper than any schema that is accepted nothing is looked at."""
    if depth == 0:
        return value
    if isinstance(value, list):
        return [_schema(each, f"{where}[{at}]", text, depth - 1) for at, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    return {key: _keyword(key, each, where, text, depth) for key, each in value.items()}


def _keyword(key: str, value: Json, where: str, text: _Text, depth: int) -> Json:
    place = f"{where}.{visible(key)[:80]}"
    if key in _DATA:
        return value
    if key in _TEXTS and isinstance(value, str):
        return text(value, place)
    if key in _NAMES and isinstance(value, dict):
        return {
            name: _schema(each, f"{place}.{visible(name)[:80]}", text, depth - 1)
            for name, each in value.items()
        }
    return _schema(value, place, text, depth - 1)


def _escape(match: re.Match[str]) -> str:
    return escaped(match.group())
