"""Bounds the texts of tool definitions and makes hidden characters in them visible."""

import re
from collections.abc import Callable
from typing import Final

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import escape_character

MAX_TEXT_CHARS: Final = 20_000
"""Characters of one description or title."""

MAX_DEPTH: Final = 60

# Control characters except tab and line ends; characters that reorder text, have no width, or encode
# invisible text (tags, extra variation selectors). Joiners are allowed: emoji and several scripts
# need them.
_HIDDEN_CHARACTERS: Final = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e"
    "\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\U000e0000-\\U000e01ef]"
)
_LINE_CHARACTERS: Final = re.compile("[\\t\\n\\r]")
_TEXT_KEYS: Final = frozenset({"description", "title"})
# Keys below these are names or data, not keywords of a schema.
_NAME_MAP_KEYS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_DATA_KEYS: Final = frozenset({"const", "enum", "default", "examples", "required"})


def has_hidden_characters(text: str) -> bool:
    return _HIDDEN_CHARACTERS.search(text) is not None


def escape_hidden_characters(text: str) -> str:
    """Replace each hidden character by a visible escape."""
    return _HIDDEN_CHARACTERS.sub(_escape_match, text)


def to_one_line(text: str) -> str:
    """Replace hidden characters, line ends and tabs by visible escapes."""
    return _LINE_CHARACTERS.sub(_escape_match, escape_hidden_characters(text))


def sanitize_definition(definition: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the definition with bounded, visible titles and descriptions, and what was changed.

    Names, schemas and values stay as they are, because they decide how a call is judged. If there
    is nothing to change, the same object is returned.
    """
    found: list[str] = []

    def sanitize_text(value: str, where: str) -> str:
        shown = escape_hidden_characters(value)
        if shown != value:
            found.append(f"{where} has hidden characters, which are shown as escapes")
        if len(shown) <= MAX_TEXT_CHARS:
            return shown
        found.append(f"{where} has {len(value)} characters, of which {MAX_TEXT_CHARS} are kept")
        return f"{shown[:MAX_TEXT_CHARS]}… ({len(shown) - MAX_TEXT_CHARS} more characters)"

    changed: JsonObject = {}
    for key, value in definition.items():
        if key in _TEXT_KEYS and isinstance(value, str):
            changed[key] = sanitize_text(value, key)
        elif key == "annotations" and isinstance(value, dict):
            changed[key] = _sanitize_annotations(value, sanitize_text)
        elif key in ("inputSchema", "outputSchema"):
            changed[key] = _sanitize_schema(value, key, sanitize_text, MAX_DEPTH)
    return ({**definition, **changed}, tuple(found)) if found else (definition, ())


_SanitizeText = Callable[[str, str], str]


def _sanitize_annotations(annotations: JsonObject, sanitize_text: _SanitizeText) -> JsonObject:
    title = annotations.get("title")
    if not isinstance(title, str):
        return annotations
    return {**annotations, "title": sanitize_text(title, "annotations.title")}


def _sanitize_schema(value: Json, path: str, sanitize_text: _SanitizeText, depth: int) -> Json:
    """Sanitize the texts of a schema; levels below `depth` stay as they are."""
    if depth == 0:
        return value
    if isinstance(value, list):
        return [
            _sanitize_schema(each, f"{path}[{at}]", sanitize_text, depth - 1)
            for at, each in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    return {
        key: _sanitize_keyword(key, each, path, sanitize_text, depth) for key, each in value.items()
    }


def _sanitize_keyword(
    key: str, value: Json, parent_path: str, sanitize_text: _SanitizeText, depth: int
) -> Json:
    place = f"{parent_path}.{escape_hidden_characters(key)[:80]}"
    if key in _DATA_KEYS:
        return value
    if key in _TEXT_KEYS and isinstance(value, str):
        return sanitize_text(value, place)
    if key in _NAME_MAP_KEYS and isinstance(value, dict):
        return {
            name: _sanitize_schema(
                each, f"{place}.{escape_hidden_characters(name)[:80]}", sanitize_text, depth - 1
            )
            for name, each in value.items()
        }
    return _sanitize_schema(value, place, sanitize_text, depth - 1)


def _escape_match(match: re.Match[str]) -> str:
    return escape_character(match.group())
