"""The elicitation form: what a person is shown, and what their answer means."""

import json
import unicodedata
from typing import cast

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.questions import Approved, Declined, Question

ALLOW_ONCE = "allow once"
DENY = "deny"

_SHOWN_VALUE = 300
_SHOWN_ARGUMENTS = 1500


def elicitation(question: Question) -> JsonObject:
    """The parameters of `elicitation/create`, the same in both eras."""
    return {
        "mode": "form",
        "message": _message(question),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Decision",
                    "description": "Let this one call run, or refuse it.",
                    "enum": [ALLOW_ONCE, DENY],
                },
                "reason": {
                    "type": "string",
                    "title": "Reason (optional)",
                    "description": "If you refuse: what the model should know or do instead.",
                },
            },
            "required": ["decision"],
        },
    }


def read_answer(result: Json) -> Approved | Declined:
    """Only a clear yes is a yes."""
    if not isinstance(result, dict):
        return Declined("the answer was not understood")
    if result.get("action") != "accept":
        said = "declined" if result.get("action") == "decline" else "dismissed the question"
        return Declined(f"the user {said}")
    content = result.get("content")
    decision = content.get("decision") if isinstance(content, dict) else None
    if decision == ALLOW_ONCE:
        return Approved()
    if decision == DENY:
        return Declined(_refusal(cast(JsonObject, content).get("reason")))
    return Declined("the answer was not understood")


def visible(text: str) -> str:
    """Control, bidi and invisible characters are shown as escapes: what a person reads is what
    will run."""
    return "".join(char if _plain(char) else _escape(char) for char in text)


def _plain(char: str) -> bool:
    return char == "\n" or unicodedata.category(char) not in {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def _refusal(reason: Json) -> str:
    if isinstance(reason, str) and reason.strip():
        return f"the user refused: {reason.strip()}"
    return "the user refused"


def _message(question: Question) -> str:
    by = question.decision.by
    return (
        f"Allow {visible(question.tool)}?\n\n"
        f"{_arguments(question.arguments)}\n\n"
        f"Asked because: {visible(by.reason)} ({visible(str(by.origin))})\n"
        f'To stop being asked, add to "permissions": {visible(question.allow_line)}'
    )


def _arguments(arguments: JsonObject) -> str:
    lines = [f"{visible(key)}: {_shown(value)}" for key, value in arguments.items()]
    text = "\n".join(lines) or "(no arguments)"
    if len(text) > _SHOWN_ARGUMENTS:
        text = f"{text[:_SHOWN_ARGUMENTS]}… ({len(text)} characters in all)"
    return text


def _shown(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) > _SHOWN_VALUE:
        return f"{visible(text[:_SHOWN_VALUE])}… ({len(text)} characters in all)"
    return visible(text)
