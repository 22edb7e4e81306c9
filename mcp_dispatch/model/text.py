"""Text of others, made fit for people's eyes."""

import unicodedata
from typing import Final

_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    """Control, bidi and invisible characters are shown as escapes, line breaks kept: what a person
    reads is what was meant."""
    return "".join(char if _plain(char) else escaped(char) for char in text)


def escaped(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def _plain(char: str) -> bool:
    return char == "\n" or unicodedata.category(char) not in _HIDDEN


LONGEST_TEXT: Final = 10_000
"""Characters of one string of a hook that reach the model."""

_SHOWN: Final = 80


def capped(text: str) -> str:
    """The head of a text that is too long, and how much is missing."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n... [{len(text) - LONGEST_TEXT} characters truncated] ..."


def cut_in_the_middle(text: str) -> str:
    """Head and tail of a text that is too long: an error often ends with its cause."""
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    missing = len(text) - 2 * half
    return f"{text[:half]}\n... [{missing} characters truncated] ...\n{text[-half:]}"


def escape_unprintable(text: str) -> str:
    """One line in which control, bidi and other unprintable characters are escapes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def shown(text: str) -> str:
    """The first of a text, short and escape_unprintable, for a message or a name."""
    return escape_unprintable(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else ""


def truncate(text: str, max_chars: int) -> str:
    """Return the first `max_chars` characters, followed by an ellipsis if any were cut off."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"


def shorten(text: str, max_chars: int) -> str:
    """Return at most `max_chars` characters, the last of them an ellipsis if any were cut off."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"
