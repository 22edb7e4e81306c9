"""Text of others, made fit for people's eyes."""

import unicodedata


def visible(text: str) -> str:
    """Control, bidi and invisible characters are shown as escapes, line breaks kept: what a person
    reads is what was meant."""
    return "".join(char if _plain(char) else _escape(char) for char in text)


def _plain(char: str) -> bool:
    return char == "\n" or unicodedata.category(char) not in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"
