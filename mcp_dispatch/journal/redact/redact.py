"""Replaces secrets with `[redacted:<kind>]` and leaves the rest unchanged."""

import math
import re
from collections.abc import Iterable

from mcp_dispatch.journal.redact.assignments import find_assigned_secrets
from mcp_dispatch.journal.redact.credentials import (
    CREDENTIAL_HINT,
    CredentialName,
    SecretConfidence,
    is_random,
    is_secret,
    parse_credential_name,
)
from mcp_dispatch.journal.redact.logins import LOGIN_HINT, find_embedded_logins
from mcp_dispatch.journal.redact.vendor_tokens import SecretSpan, find_known_secrets
from mcp_dispatch.model.json import Json, JsonObject

MAX_TEXT_CHARS = 100_000
MAX_TOTAL_CHARS = 1_000_000
_MAX_DEPTH = 64
_MAX_ITEMS = 1_000
# Text after the cut is needed to recognize a secret that begins before it.
_LOOKAHEAD_CHARS = 1_024
_MAX_KEY_CHARS = 256
_MAX_ROUNDS = 8
_MARKER = re.compile(r"\[redacted:[a-z0-9-]{1,40}\]")
_MIN_TOKEN_CHARS = 16


def redact_text(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Redact `text`. A longer text is cut after `max_chars` characters, and its length is added."""
    shown = _remove_secrets(text[: max_chars + _LOOKAHEAD_CHARS], max_chars)
    if len(text) > max_chars:
        return f"{shown}… [{len(text):,} characters in all]"
    return shown


def _remove_secrets(text: str, length: int) -> str:
    """Return the first `length` characters, redacted repeatedly: a marker separates words, so that
    another secret next to it may be recognized only then."""
    for _ in range(_MAX_ROUNDS):
        spans = _find_secrets(text)
        text = _replace_spans(text, spans, length)
        length = len(text)
        if not spans:
            break
    return text


def _find_secrets(text: str) -> list[SecretSpan]:
    found = list(find_known_secrets(text))
    if CREDENTIAL_HINT.search(text):
        found += find_assigned_secrets(text)
    if LOGIN_HINT.search(text):
        found += find_embedded_logins(text)
    return _merge_spans(_exclude_markers(text, found)) if found else []


def _replace_spans(text: str, spans: list[SecretSpan], length: int) -> str:
    """Return the first `length` characters of `text`; a secret that crosses the end is replaced
    completely."""
    pieces: list[str] = []
    position = 0
    for span in spans:
        if span.start >= length:
            break
        pieces += [text[position : span.start], f"[redacted:{span.kind}]"]
        position = span.end
    pieces.append(text[position:length])
    return "".join(pieces)


def _exclude_markers(text: str, spans: list[SecretSpan]) -> list[SecretSpan]:
    """Remove spans that begin inside a marker: `token` in `[redacted:token]` is not a name."""
    if "[redacted:" not in text:
        return spans
    inside = {
        n for marker in _MARKER.finditer(text) for n in range(marker.start() + 1, marker.end())
    }
    return [span for span in spans if span.start not in inside]


def _merge_spans(spans: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Merge overlapping spans; the kind of the first one wins."""
    merged: list[SecretSpan] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = SecretSpan(last.start, max(last.end, span.end), last.kind)
        else:
            merged.append(span)
    return merged


def redact(
    value: Json, max_chars: int = MAX_TEXT_CHARS, max_total_chars: int = MAX_TOTAL_CHARS
) -> Json:
    """Redact `value`. A notice replaces parts that are too deep or too long.

    One string is limited to `max_chars` characters, all strings together to `max_total_chars`. A
    string under a credential name is redacted completely, at any depth below it.
    """
    return _Redactor(max_chars, max_total_chars).redact_value(value, None, 0)


class _Redactor:
    """Redacts one value and counts how much may still be recorded."""

    def __init__(self, max_chars: int, max_total_chars: int) -> None:
        self._max_chars = max_chars
        self._items_left = _MAX_ITEMS
        self._chars_left = max_total_chars

    def redact_value(self, value: Json, name: CredentialName | None, depth: int) -> Json:
        """`name` is the credential name above `value`, at any distance."""
        if isinstance(value, str):
            return self._redact_string(value, name)
        if isinstance(value, (dict, list)):
            if depth >= _MAX_DEPTH:
                return f"[not recorded: nested deeper than {_MAX_DEPTH} levels]"
            inherited = None if name and name.confidence is SecretConfidence.IF_RANDOM else name
            if isinstance(value, dict):
                return self._redact_object(value, inherited, depth + 1)
            return self._redact_array(value, name, depth + 1)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, float) and not math.isfinite(value):
            # JSON has no such numbers, and a record that is not JSON would be lost.
            return self._redact_string(str(value), name)
        password = name is not None and name.confidence is SecretConfidence.PASSWORD
        return "[redacted:password]" if password else value

    def _redact_string(self, text: str, name: CredentialName | None) -> str:
        if name is not None and is_secret(text, name):
            return f"[redacted:{name.kind}]"
        room = min(self._max_chars, self._chars_left)
        self._chars_left -= min(len(text), room)
        if text and not room:
            return f"[not recorded: {len(text):,} characters]"
        return redact_text(text, room)

    def _redact_object(
        self, value: JsonObject, name: CredentialName | None, depth: int
    ) -> JsonObject:
        redacted: JsonObject = {}
        for number, (key, item) in enumerate(value.items()):
            if not self._items_left:
                redacted["…"] = f"[{len(value) - number:,} more not recorded]"
                break
            self._items_left -= 1
            shown = _redact_key(key)
            redacted[shown] = self.redact_value(item, _find_name(value, shown) or name, depth)
        return redacted

    def _redact_array(
        self, value: list[Json], name: CredentialName | None, depth: int
    ) -> list[Json]:
        redacted: list[Json] = []
        for number, item in enumerate(value):
            if not self._items_left:
                redacted.append(f"[{len(value) - number:,} more not recorded]")
                break
            self._items_left -= 1
            redacted.append(
                self.redact_value(item, _find_preceding_name(value, number) or name, depth)
            )
        return redacted


def _redact_key(key: str) -> str:
    """A key is normally a name, but may contain a token."""
    return redact_text(key, _MAX_KEY_CHARS) if len(key) >= _MIN_TOKEN_CHARS else key


def _find_name(holder: JsonObject, key: str) -> CredentialName | None:
    """Return the credential name of `holder[key]`; for `{"name": …, "value": …}` it is the name."""
    if key == "value":
        name = holder.get("name", holder.get("key"))
        return parse_credential_name(name) if isinstance(name, str) else None
    if key in ("data", "stringData") and holder.get("kind") == "Secret":
        return CredentialName("secret", SecretConfidence.PASSWORD)
    key = _MARKER.sub("", key)
    return parse_credential_name(key) if CREDENTIAL_HINT.search(key) else None


def _find_preceding_name(items: list[Json], number: int) -> CredentialName | None:
    """Return the credential name in the item before: `--password`, or the name of a header."""
    item, before = items[number], items[number - 1] if number else None
    if not isinstance(item, str) or not isinstance(before, str) or item.startswith("-"):
        return None
    name = parse_credential_name(before)
    if name is None or before.startswith("--"):
        return name
    header = name.kind in ("authorization", "cookie") or is_random(item)
    return name if header and len(items) == 2 else None
