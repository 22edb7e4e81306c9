"""Functions that escape, truncate and shorten text."""

import unicodedata
from typing import Final

_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})


def escape_control_characters(text: str) -> str:
    """Escape control, bidi and invisible characters; keep line breaks. A person then sees every
    character of the text."""
    return "".join(char if _is_plain(char) else escape_character(char) for char in text)


def escape_character(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def _is_plain(char: str) -> bool:
    return char == "\n" or unicodedata.category(char) not in _HIDDEN_CATEGORIES


MAX_TEXT_CHARS: Final = 10_000
"""The maximum length of one string of a hook that the model receives."""

_MAX_EXCERPT_CHARS: Final = 80


def truncate_with_count(text: str) -> str:
    """Return the start of a text that is too long, and the number of missing characters."""
    if len(text) <= MAX_TEXT_CHARS:
        return text
    return f"{text[:MAX_TEXT_CHARS]}\n... [{len(text) - MAX_TEXT_CHARS} characters truncated] ..."


def truncate_middle(text: str) -> str:
    """Return the start and the end of a text that is too long: an error often ends with its
    cause."""
    if len(text) <= MAX_TEXT_CHARS:
        return text
    half = MAX_TEXT_CHARS // 2
    missing = len(text) - 2 * half
    return f"{text[:half]}\n... [{missing} characters truncated] ...\n{text[-half:]}"


def escape_unprintable(text: str) -> str:
    """Escape control, bidi and other unprintable characters, line breaks included."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def format_excerpt(text: str) -> str:
    """Return the start of a text, escaped, for a message or a name."""
    return escape_unprintable(
        text if len(text) <= _MAX_EXCERPT_CHARS else f"{text[:_MAX_EXCERPT_CHARS]}…"
    )


def extract_first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else ""


def truncate(text: str, max_chars: int) -> str:
    """Return the first `max_chars` characters, followed by an ellipsis if any were cut off."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"


def shorten(text: str, max_chars: int) -> str:
    """Return at most `max_chars` characters, the last of them an ellipsis if any were cut off."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
