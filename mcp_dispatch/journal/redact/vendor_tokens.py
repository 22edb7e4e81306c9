"""Finds private keys and tokens of known vendors, which their prefix and alphabet identify."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class SecretSpan(NamedTuple):
    """The position and the kind of a secret in a text; `end` is exclusive."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class TokenPattern:
    """Only a text that contains one of `hints`, in any case, is searched for `pattern`.

    This keeps the search of a long text without secrets cheap.
    """

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


# Not inside a word or a base64 blob; but right after an escaped newline or a percent-escape.
_TOKEN_START = r"(?:(?<![A-Za-z0-9+/_])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=[:=\"'>]/))"
_TOKEN_END = r"(?![A-Za-z0-9])"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_PLACEHOLDERS = {"{start}": _TOKEN_START, "{end}": _TOKEN_END, "{uuid}": _UUID}


def load_token_patterns() -> tuple[TokenPattern, ...]:
    """Return the patterns of `vendor_tokens.txt`, in its order."""
    text = Path(__file__).with_name("vendor_tokens.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(_parse_token_pattern(line) for line in lines)


def _parse_token_pattern(line: str) -> TokenPattern:
    kind, hints, pattern = line.split("\t")
    for placeholder, expression in _PLACEHOLDERS.items():
        pattern = pattern.replace(placeholder, expression)
    return TokenPattern(kind, tuple(hints.lower().split()), re.compile(pattern, re.ASCII))


TOKEN_PATTERNS = load_token_patterns()

_KEY_START = re.compile(r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE)
_KEY_END = re.compile(r"-----END[ A-Z0-9_-]{0,100}KEY(?: BLOCK)?-----", re.IGNORECASE)
_KEY_BODY = re.compile(
    r"(?:\s|\\[nrt])*+(?:[A-Z][\w-]{1,20}: [^\n]{0,200}\n\s*+)*+"
    r"[A-Za-z0-9+/=]{32,}+(?:[A-Za-z0-9+/=\s]|\\[nrt])*+"
)
_MIN_KEY_BODY_CHARS = 40
# Private keys apart, every known secret is one unbroken run; ordinary sentences have none so long.
_LONG_RUN = re.compile(r"\S{12}")


def find_known_secrets(text: str) -> Iterator[SecretSpan]:
    if _LONG_RUN.search(text) is None:
        return
    folded = text.lower()
    if "private key" in folded:
        yield from _find_private_keys(text)
    for known in TOKEN_PATTERNS:
        if any(hint in folded for hint in known.hints):
            for found in known.pattern.finditer(text):
                yield SecretSpan(found.start(), found.end(), known.kind)


def _find_private_keys(text: str) -> Iterator[SecretSpan]:
    """Yield whole blocks, and of a truncated block everything that may still belong to it."""
    ends = [end.end() for end in _KEY_END.finditer(text)]
    done = 0
    for begin in _KEY_START.finditer(text):
        if begin.start() < done:
            continue
        after = bisect_left(ends, begin.end() + _MIN_KEY_BODY_CHARS)
        body = _KEY_BODY.match(text, begin.end())
        if after < len(ends):
            done = ends[after]
        elif body is not None:
            done = body.end()
        else:
            continue
        yield SecretSpan(begin.start(), done, "private-key")
