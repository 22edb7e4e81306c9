"""Renders a call for a person: hidden characters are escaped, and no argument can imitate our text."""

import json
from typing import Final

from mcp_dispatch.model.approval import Question
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import escape_control_characters, shorten

MAX_FORM_CHARS: Final = 1500
"""Characters of all arguments together in an elicitation form."""


def format_reason(question: Question) -> str:
    by = question.decision.by
    return f"{escape_control_characters(by.reason)} ({escape_control_characters(str(by.origin))})"


def format_arguments(arguments: JsonObject, max_chars: int = MAX_FORM_CHARS) -> list[str]:
    """Return the arguments as lines. A long value is cut in the middle, with the omitted length."""
    if not arguments:
        return ["(no arguments)"]
    max_value_chars = max(60, max_chars // len(arguments))
    lines = [
        line
        for key, value in arguments.items()
        for line in _format_argument(key, value, max_value_chars)
    ]
    if sum(map(len, lines)) <= 2 * max_chars:
        return lines
    return [*_take_lines(lines, max_chars), f"… ({len(arguments)} arguments in all)"]


def summarize_arguments(arguments: JsonObject, max_chars: int) -> str:
    """Return the argument values in one line, for a list of calls."""
    texts = [
        escape_control_characters(_to_text(value)).replace("\n", "⏎")
        for value in arguments.values()
    ]
    return shorten(" ".join(texts), max_chars)


def _format_argument(key: str, value: Json, max_chars: int) -> list[str]:
    text = _to_text(value)
    if len(text) > max_chars:
        head_chars, tail_chars = max_chars * 2 // 3, max_chars // 3
        head = escape_control_characters(text[:head_chars])
        tail = escape_control_characters(text[-tail_chars:])
        omitted = len(text) - head_chars - tail_chars
        shown = f"{head} … ({omitted} characters left out) … {tail}"
    else:
        shown = escape_control_characters(text)
    # Continuation lines are indented, so that no argument can imitate our own lines.
    return f"{escape_control_characters(key)}: {shown}".replace("\n", "\n  ").split("\n")


def _take_lines(lines: list[str], budget: int) -> list[str]:
    """Return the first lines that together have at most `budget` characters."""
    taken: list[str] = []
    for line in lines:
        budget -= len(line)
        if budget < 0:
            break
        taken.append(line)
    return taken


def _to_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
