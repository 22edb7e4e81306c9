"""A call as a person is shown it: nothing invisible, nothing that passes for words of ours."""

import json
from typing import Final

from mcp_dispatch.model.approval import Question
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import escape_control_characters

MAX_FORM_CHARS: Final = 1500
"""Characters of all arguments together in a form."""


def format_reason(question: Question) -> str:
    by = question.decision.by
    return f"{escape_control_characters(by.reason)} ({escape_control_characters(str(by.origin))})"


def format_arguments(arguments: JsonObject, max_chars: int = MAX_FORM_CHARS) -> list[str]:
    """The arguments; of a long one its beginning and its end, and how much is left out."""
    if not arguments:
        return ["(no arguments)"]
    each = max(60, max_chars // len(arguments))
    lines = [
        line for key, value in arguments.items() for line in _format_argument(key, value, each)
    ]
    if sum(map(len, lines)) <= 2 * max_chars:
        return lines
    return [*_take_lines(lines, max_chars), f"… ({len(arguments)} arguments in all)"]


def summarize_arguments(arguments: JsonObject, max_chars: int) -> str:
    """The gist of a call, for a list of many."""
    texts = [
        escape_control_characters(_to_text(value)).replace("\n", "⏎")
        for value in arguments.values()
    ]
    text = " ".join(texts)
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def _format_argument(key: str, value: Json, max_chars: int) -> list[str]:
    text = _to_text(value)
    if len(text) > max_chars:
        head, tail = max_chars * 2 // 3, max_chars // 3
        left = len(text) - head - tail
        shown = f"{escape_control_characters(text[:head])} … ({left} characters left out) … {escape_control_characters(text[-tail:])}"
    else:
        shown = escape_control_characters(text)
    # Further lines are set in, so that no argument can pass for what we say ourselves.
    return f"{escape_control_characters(key)}: {shown}".replace("\n", "\n  ").split("\n")


def _take_lines(lines: list[str], budget: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        budget -= len(line)
        if budget < 0:
            break
        kept.append(line)
    return kept


def _to_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
