"""Lexical rules of bash that the parsers share, and the error for syntax that they do not support."""

import re
import unicodedata

MAX_COMMAND_CHARS = 10_000
"""Longer commands are not parsed."""

RESERVED = frozenset(
    {
        *("if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case"),
        *("esac", "in", "function", "select", "time", "coproc", "{", "}", "!", "[[", "]]"),
    }
)
METACHARACTERS = " \t\n;&|<>()"
WORD_END = rf"(?=[{METACHARACTERS}]|$)"
"""A lookahead for the end of an unquoted word."""

OPERATOR = re.compile(r"&&|\|\||\|&|[;&|\n]")
JOINING_OPERATORS = frozenset({"&&", "||", "|", "|&"})
"""Operators after which a command must follow."""

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
VARIABLE = re.compile(rf"\$(?:({NAME})|\{{({NAME})\}})")
ASSIGNMENT = re.compile(rf"({NAME})\+?=")
SUBSCRIPT = re.compile(rf"{NAME}\[")
TILDE = re.compile(r"~[A-Za-z0-9_+.-]*")
REDIRECT = re.compile(r"(?:([0-9]?)(>>|>|<)|()(&>>|&>))(?![<>(|&])")
DUPLICATE = re.compile(rf"([0-9]?)([<>]&)([0-9]|-){WORD_END}")
"""A redirect to another descriptor, such as `2>&1`."""

UNQUOTED_TEXT = re.compile(r"[A-Za-z0-9_@%+=:,./^\]-]+")
DOUBLE_QUOTED_TEXT = re.compile(r'[^"`$\\]+')

DIRECTORY_CHANGERS = frozenset({"cd", "pushd", "popd"})


class UnsupportedSyntax(Exception):
    """The text contains syntax that the parsers may read differently from bash."""


def check_text(text: str) -> None:
    """Raise `UnsupportedSyntax` if the text is too long or contains a control character."""
    if len(text) > MAX_COMMAND_CHARS:
        raise UnsupportedSyntax(f"the command is longer than {MAX_COMMAND_CHARS:,} characters")
    for character in text:
        if " " <= character <= "~" or character in "\n\t":
            continue
        if unicodedata.category(character)[0] in "CZ":
            raise UnsupportedSyntax(f"it contains the character U+{ord(character):04X}")


def may_split_words(character: str) -> bool:
    """Return whether some locale treats a byte of the character as a blank (0x85 or 0xA0)."""
    return any(byte in (0x85, 0xA0) for byte in character.encode())
