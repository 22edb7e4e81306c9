"""The elicitation form: what a person is shown, and what their answer means."""

from typing import Final, cast

from mcp_dispatch.approval.render import because, call_lines
from mcp_dispatch.model.approval import Approved, Declined, Extent, Offer, Question
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import visible

DENY: Final = "deny"
SPELT: Final = {
    Extent.ONCE: "allow once",
    Extent.SESSION: "allow for this session",
    Extent.ALWAYS: "always allow",
}
_EXTENTS: Final = {text: extent for extent, text in SPELT.items()}


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
                    "description": _explanation(question.offer),
                    "enum": [*(SPELT[extent] for extent in question.offer.extents), DENY],
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


def read_answer(result: Json, offer: Offer) -> Approved | Declined:
    """Only a clear yes to something that was offered is a yes."""
    if not isinstance(result, dict):
        return Declined("the answer was not understood")
    if result.get("action") != "accept":
        said = "declined" if result.get("action") == "decline" else "dismissed the question"
        return Declined(f"the user {said}")
    content = result.get("content")
    decision = content.get("decision") if isinstance(content, dict) else None
    if decision == DENY:
        return refusal(cast(JsonObject, content).get("reason"))
    extent = _EXTENTS.get(decision) if isinstance(decision, str) else None
    if extent is None or extent not in offer.extents:
        return Declined("the answer was not understood")
    return Approved(extent)


def refusal(reason: Json) -> Declined:
    """A no, with what the person has to say about it."""
    if isinstance(reason, str) and reason.strip():
        return Declined(f"the user refused: {reason.strip()}")
    return Declined("the user refused")


def standing_for(offer: Offer) -> list[str]:
    """What a lasting yes would mean, in lines; none where it is not offered."""
    if not offer.rules:
        return []
    rules = ", ".join(map(visible, offer.rules))
    if offer.file is None:
        return [f'"{SPELT[Extent.SESSION]}" adds, until it ends: {rules}']
    return [
        f'"{SPELT[Extent.SESSION]}" and "{SPELT[Extent.ALWAYS]}" add: {rules}',
        f'"{SPELT[Extent.ALWAYS]}" writes it to {visible(str(offer.file))}',
    ]


def _explanation(offer: Offer) -> str:
    if not offer.rules:
        return "Let this one call run, or refuse it."
    return "Let this one call run, or more of its kind as shown above, or refuse it."


def _message(question: Question) -> str:
    lines = [
        f"Allow {visible(question.tool)}?",
        "",
        *call_lines(question.arguments),
        "",
        f"Asked because: {because(question)}",
        *standing_for(question.offer),
    ]
    if not question.offer.rules and question.allow_line is not None:
        lines.append(f'To stop being asked, add to "permissions": {visible(question.allow_line)}')
    return "\n".join(lines)
