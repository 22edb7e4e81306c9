"""The elicitation form: what a person is shown, and what their answer means."""

from typing import Final, cast

from mcp_dispatch.approval.render import format_arguments, format_reason
from mcp_dispatch.model.approval import ApprovalScope, Approved, Declined, Question, RememberOptions
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import escape_control_characters

DENY: Final = "deny"
CHOICE_LABELS: Final = {
    ApprovalScope.ONCE: "allow once",
    ApprovalScope.SESSION: "allow for this session",
    ApprovalScope.ALWAYS: "always allow",
}
_CHOICES_BY_LABEL: Final = {text: extent for extent, text in CHOICE_LABELS.items()}


def build_elicitation(question: Question) -> JsonObject:
    """The parameters of `elicitation/create`, the same in both eras."""
    return {
        "mode": "form",
        "message": _format_message(question),
        "requestedSchema": {
            "type": "object",
            "properties": {
                "decision": {
                    "type": "string",
                    "title": "Decision",
                    "description": _describe_choices(question.options),
                    "enum": [*(CHOICE_LABELS[extent] for extent in question.options.scopes), DENY],
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


def read_answer(result: Json, options: RememberOptions) -> Approved | Declined:
    """Only a clear yes to something that was offered is a yes."""
    if not isinstance(result, dict):
        return Declined("the answer was not understood")
    if result.get("action") != "accept":
        said = "declined" if result.get("action") == "decline" else "dismissed the question"
        return Declined(f"the user {said}")
    content = result.get("content")
    decision = content.get("decision") if isinstance(content, dict) else None
    if decision == DENY:
        return build_refusal(cast(JsonObject, content).get("reason"))
    extent = _CHOICES_BY_LABEL.get(decision) if isinstance(decision, str) else None
    if extent is None or extent not in options.scopes:
        return Declined("the answer was not understood")
    return Approved(extent)


def build_refusal(reason: Json) -> Declined:
    """A no, with what the person has to say about it."""
    if isinstance(reason, str) and reason.strip():
        return Declined(f"the user refused: {reason.strip()}")
    return Declined("the user refused")


def describe_remember_options(options: RememberOptions) -> list[str]:
    """What a lasting yes would mean, in lines; none where it is not offered."""
    if not options.rules:
        return []
    rules = ", ".join(map(escape_control_characters, options.rules))
    if options.file is None:
        return [f'"{CHOICE_LABELS[ApprovalScope.SESSION]}" adds, until it ends: {rules}']
    return [
        f'"{CHOICE_LABELS[ApprovalScope.SESSION]}" and "{CHOICE_LABELS[ApprovalScope.ALWAYS]}" add: {rules}',
        f'"{CHOICE_LABELS[ApprovalScope.ALWAYS]}" writes it to {escape_control_characters(str(options.file))}',
    ]


def _describe_choices(options: RememberOptions) -> str:
    if not options.rules:
        return "Let this one call run, or refuse it."
    return "Let this one call run, or more of its kind as shown above, or refuse it."


def _format_message(question: Question) -> str:
    lines = [
        f"Allow {escape_control_characters(question.tool)}?",
        "",
        *format_arguments(question.arguments),
        "",
        f"Asked because: {format_reason(question)}",
        *describe_remember_options(question.options),
    ]
    if not question.options.rules and question.allow_line is not None:
        lines.append(
            f'To stop being asked, add to "permissions": {escape_control_characters(question.allow_line)}'
        )
    return "\n".join(lines)
