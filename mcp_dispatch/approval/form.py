"""The elicitation form of an approval question, and the parsing of its answer."""

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
_CHOICES_BY_LABEL: Final = {text: scope for scope, text in CHOICE_LABELS.items()}


def build_elicitation(question: Question) -> JsonObject:
    """Return the parameters of `elicitation/create`, which are the same in both eras."""
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
                    "enum": [*(CHOICE_LABELS[scope] for scope in question.options.scopes), DENY],
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
    """Parse an answer. Only an explicit choice of an offered option approves the call."""
    if not isinstance(result, dict):
        return Declined("the answer was not understood")
    if result.get("action") != "accept":
        is_decline = result.get("action") == "decline"
        return Declined(f"the user {'declined' if is_decline else 'dismissed the question'}")
    content = result.get("content")
    decision = content.get("decision") if isinstance(content, dict) else None
    if decision == DENY:
        return build_refusal(cast(JsonObject, content).get("reason"))
    scope = _CHOICES_BY_LABEL.get(decision) if isinstance(decision, str) else None
    if scope is None or scope not in options.scopes:
        return Declined("the answer was not understood")
    return Approved(scope)


def build_refusal(reason: Json) -> Declined:
    """Return a refusal with the reason of the person, if there is one."""
    if isinstance(reason, str) and reason.strip():
        return Declined(f"the user refused: {reason.strip()}")
    return Declined("the user refused")


def describe_remember_options(options: RememberOptions) -> list[str]:
    """Return lines that explain the lasting options; none if they are not offered."""
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
