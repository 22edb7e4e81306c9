"""A question as it travels to a terminal, and back into words there."""

from dataclasses import dataclass
from typing import Final, cast

from mcp_dispatch.approval.pending import Lying
from mcp_dispatch.approval.render import because, call_lines, one_line
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.text import visible

ROOM: Final = 20_000
"""Characters of a call that a terminal can page through."""

_GIST: Final = 200


@dataclass(frozen=True, slots=True)
class Told:
    """All of it can be shown as it is: nothing in it is invisible."""

    id: str
    tool: str
    gist: str
    call: tuple[str, ...]
    because: str
    rules: tuple[str, ...]
    file: str | None
    choices: tuple[str, ...]
    waits: bool
    """Whether the call waits for the answer; else the call made again will use it."""

    age: float
    server: int = 0
    workspace: str | None = None


def tell(lying: Lying, age: float) -> JsonObject:
    question = lying.question
    offer = question.offer
    return {
        "id": lying.id,
        "tool": visible(question.tool),
        "gist": one_line(question.arguments, _GIST),
        "call": [*call_lines(question.arguments, ROOM)],
        "because": because(question),
        "rules": [*map(visible, offer.rules)],
        "file": None if offer.file is None else visible(str(offer.file)),
        "choices": [*(extent.value for extent in offer.extents), "deny"],
        "waits": lying.until is None,
        "age": round(age, 1),
    }


def heard(shown: JsonObject) -> list[Told]:
    """The questions of one server's message. Raises `KeyError` or `TypeError` for anything else."""
    questions = cast("list[JsonObject]", shown["questions"])
    root = cast("str | None", shown["workspace"])
    return [_heard(question, cast(int, shown["server"]), root) for question in questions]


def _heard(question: JsonObject, server: int, root: str | None) -> Told:
    return Told(
        id=cast(str, question["id"]),
        tool=cast(str, question["tool"]),
        gist=cast(str, question["gist"]),
        call=tuple(cast("list[str]", question["call"])),
        because=cast(str, question["because"]),
        rules=tuple(cast("list[str]", question["rules"])),
        file=cast("str | None", question["file"]),
        choices=tuple(cast("list[str]", question["choices"])),
        waits=question["waits"] is True,
        age=cast(float, question["age"]),
        server=server,
        workspace=None if root is None else visible(root),
    )
