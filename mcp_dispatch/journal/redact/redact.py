"""Secrets out of what is written down: `[redacted:<kind>]` in their place, the rest unchanged."""

import math
import re
from collections.abc import Iterable

from mcp_dispatch.journal.redact.assignments import assigned_secrets
from mcp_dispatch.journal.redact.credentials import (
    CredentialName,
    Promise,
    credential_name,
    is_secret,
    looks_random,
)
from mcp_dispatch.journal.redact.logins import embedded_logins
from mcp_dispatch.journal.redact.vendor_tokens import Span, known_secrets
from mcp_dispatch.model.json import Json, JsonObject

LONGEST_TEXT = 100_000
MOST_TEXT = 1_000_000
_DEEPEST = 64
_MOST_ITEMS = 1_000
# A secret that begins before the cut is recognised by what follows it.
_BEYOND_THE_CUT = 1_024
_LONGEST_KEY = 256
_MOST_ROUNDS = 8
_MARKER = re.compile(r"\[redacted:[a-z0-9-]{1,40}\]")
_SHORTEST_TOKEN = 16


def redact_text(text: str, longest: int = LONGEST_TEXT) -> str:
    """`text` without its secrets; of a longer one the first `longest` characters and a notice."""
    shown = _without_secrets(text[: longest + _BEYOND_THE_CUT], longest)
    if len(text) > longest:
        return f"{shown}… [{len(text):,} characters in all]"
    return shown


def _without_secrets(text: str, length: int) -> str:
    """The first `length` characters, redacted until there is nothing left to redact: a marker
    ends a word, so that what stood against a secret may come to light as another."""
    for _ in range(_MOST_ROUNDS):
        spans = _secrets_in(text)
        text = _replaced(text, spans, length)
        length = len(text)
        if not spans:
            break
    return text


def _secrets_in(text: str) -> list[Span]:
    found = [*known_secrets(text), *assigned_secrets(text), *embedded_logins(text)]
    return _merged(_outside_markers(text, found)) if found else []


def _replaced(text: str, spans: list[Span], length: int) -> str:
    """The first `length` characters of `text`; a secret that reaches beyond is replaced whole."""
    pieces: list[str] = []
    position = 0
    for span in spans:
        if span.start >= length:
            break
        pieces += [text[position : span.start], f"[redacted:{span.kind}]"]
        position = span.end
    pieces.append(text[position:length])
    return "".join(pieces)


def _outside_markers(text: str, spans: list[Span]) -> list[Span]:
    """Without what begins inside a marker of ours: `token` in `[redacted:token]` names nothing."""
    if "[redacted:" not in text:
        return spans
    inside = {
        n for marker in _MARKER.finditer(text) for n in range(marker.start() + 1, marker.end())
    }
    return [span for span in spans if span.start not in inside]


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Overlapping spans as one, of the kind that was found first."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = Span(last.start, max(last.end, span.end), last.kind)
        else:
            merged.append(span)
    return merged


def redact(value: Json, longest: int = LONGEST_TEXT, most: int = MOST_TEXT) -> Json:
    """`value` without its secrets. What is too deep or too much is left out, and it says so.

    `longest` characters are taken of one string, `most` of all of them together.
    A string under a credential-like key is redacted whole, at any depth below it.
    """
    return _Redaction(longest, most).json(value, None, 0)


class _Redaction:
    """One value on its way; what may still be taken from it shrinks as it goes."""

    def __init__(self, longest: int, most: int) -> None:
        self._longest = longest
        self._items = _MOST_ITEMS
        self._characters = most

    def json(self, value: Json, name: CredentialName | None, depth: int) -> Json:
        """`name` is the credential-like name that `value` stands under, near or far."""
        if isinstance(value, str):
            return self._text(value, name)
        if isinstance(value, (dict, list)):
            if depth >= _DEEPEST:
                return f"[not recorded: nested deeper than {_DEEPEST} levels]"
            inherited = None if name and name.promise is Promise.PERHAPS else name
            if isinstance(value, dict):
                return self._object(value, inherited, depth + 1)
            return self._array(value, name, depth + 1)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, float) and not math.isfinite(value):
            # JSON has no word for it; a record that cannot be written would lose the call.
            return self._text(str(value), name)
        password = name is not None and name.promise is Promise.PASSWORD
        return "[redacted:password]" if password else value

    def _text(self, text: str, name: CredentialName | None) -> str:
        if name is not None and is_secret(text, name):
            return f"[redacted:{name.kind}]"
        room = min(self._longest, self._characters)
        self._characters -= min(len(text), room)
        if text and not room:
            return f"[not recorded: {len(text):,} characters]"
        return redact_text(text, room)

    def _object(self, value: JsonObject, name: CredentialName | None, depth: int) -> JsonObject:
        redacted: JsonObject = {}
        for number, (key, item) in enumerate(value.items()):
            if not self._items:
                redacted["…"] = f"[{len(value) - number:,} more not recorded]"
                break
            self._items -= 1
            shown = _key(key)
            redacted[shown] = self.json(item, _name_of(value, shown) or name, depth)
        return redacted

    def _array(self, value: list[Json], name: CredentialName | None, depth: int) -> list[Json]:
        redacted: list[Json] = []
        for number, item in enumerate(value):
            if not self._items:
                redacted.append(f"[{len(value) - number:,} more not recorded]")
                break
            self._items -= 1
            redacted.append(self.json(item, _name_before(value, number) or name, depth))
        return redacted


def _key(key: str) -> str:
    """A key is a name, but someone may have put a token there."""
    return redact_text(key, _LONGEST_KEY) if len(key) >= _SHORTEST_TOKEN else key


def _name_of(holder: JsonObject, key: str) -> CredentialName | None:
    """The credential-like name of `holder[key]`; of `{"name": …, "value": …}` it is the name."""
    if key == "value":
        name = holder.get("name", holder.get("key"))
        return credential_name(name) if isinstance(name, str) else None
    if key in ("data", "stringData") and holder.get("kind") == "Secret":
        return CredentialName("secret", Promise.PASSWORD)
    return credential_name(_MARKER.sub("", key))


def _name_before(items: list[Json], number: int) -> CredentialName | None:
    """The credential-like name that the item before gives: `--password`, or a header's pair."""
    item, before = items[number], items[number - 1] if number else None
    if not isinstance(item, str) or not isinstance(before, str) or item.startswith("-"):
        return None
    name = credential_name(before)
    if name is None or before.startswith("--"):
        return name
    header = name.kind in ("authorization", "cookie") or looks_random(item)
    return name if header and len(items) == 2 else None
