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
