"""Text of others made fit to be shown: bounded, and with nothing invisible in it."""

from typing import Final

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


def visible(text: str) -> str:
    """One line in which control, bidi and other unprintable characters are escapes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def shown(text: str) -> str:
    """The first of a text, short and visible, for a message or a name."""
    return visible(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else ""
