"""A call as a person is shown it: nothing invisible, nothing that passes for words of ours."""

import json
from typing import Final

from mcp_dispatch.model.approval import Question
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import visible

SHORT: Final = 1500
"""Characters of all arguments together in a form."""


def because(question: Question) -> str:
    by = question.decision.by
    return f"{visible(by.reason)} ({visible(str(by.origin))})"


def call_lines(arguments: JsonObject, room: int = SHORT) -> list[str]:
    """The arguments; of a long one its beginning and its end, and how much is left out."""
    if not arguments:
        return ["(no arguments)"]
    each = max(60, room // len(arguments))
    lines = [line for key, value in arguments.items() for line in _argument(key, value, each)]
    if sum(map(len, lines)) <= 2 * room:
        return lines
    return [*_within(lines, room), f"… ({len(arguments)} arguments in all)"]


def one_line(arguments: JsonObject, width: int) -> str:
    """The gist of a call, for a list of many."""
    texts = [visible(_text(value)).replace("\n", "⏎") for value in arguments.values()]
    text = " ".join(texts)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _argument(key: str, value: Json, room: int) -> list[str]:
    text = _text(value)
    if len(text) > room:
        head, tail = room * 2 // 3, room // 3
        left = len(text) - head - tail
        shown = f"{visible(text[:head])} … ({left} characters left out) … {visible(text[-tail:])}"
    else:
        shown = visible(text)
    # Further lines are set in, so that no argument can pass for what we say ourselves.
    return f"{visible(key)}: {shown}".replace("\n", "\n  ").split("\n")


def _within(lines: list[str], room: int) -> list[str]:
    kept: list[str] = []
    for line in lines:
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    return kept


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
