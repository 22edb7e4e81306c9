"""The elicitation form, the parsing of its answer, and the fallback when nobody can be asked."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from mcp_dispatch.approval.approver import Approver, AskFallback
from mcp_dispatch.approval.form import build_elicitation, read_answer
from mcp_dispatch.model.approval import ApprovalScope, Approved, Declined, Question, RememberOptions
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.text import escape_control_characters
from tests.support.questions import QUESTION, forget
from tests.support.stand_ins import ScriptedCaller

OWN = Path("/config/workspaces/1.json")
LASTING = RememberOptions(("Bash(npm test:*)",), OWN)


def list_decisions(question: Question) -> Json:
    schema = cast("dict[str, Any]", build_elicitation(question)["requestedSchema"])
    return schema["properties"]["decision"]["enum"]


def test_the_form_shows_the_tool_its_arguments_the_reason_and_the_line_that_would_allow_it() -> (
    None
):
    assert build_elicitation(QUESTION)["message"] == (
        "Allow Bash?\n\ncommand: npm test\n\n"
        "Asked because: no rule covers this (default mode)\n"
        'To stop being asked, add to "permissions": "allow": ["Bash"]'
    )
    assert list_decisions(QUESTION) == ["allow once", "deny"]


def test_the_form_shows_the_rules_of_a_lasting_approval_and_their_file() -> None:
    question = replace(QUESTION, options=LASTING)

    assert build_elicitation(question)["message"] == (
        "Allow Bash?\n\ncommand: npm test\n\n"
        "Asked because: no rule covers this (default mode)\n"
        '"allow for this session" and "always allow" add: Bash(npm test:*)\n'
        '"always allow" writes it to /config/workspaces/1.json'
    )
    assert list_decisions(question) == [
        *("allow once", "allow for this session", "always allow", "deny"),
    ]


def test_without_a_file_to_write_to_always_is_not_offered() -> None:
    question = replace(QUESTION, options=RememberOptions(("Bash(npm test:*)",)))

    assert str(build_elicitation(question)["message"]).endswith(
        '"allow for this session" adds, until it ends: Bash(npm test:*)'
    )
    assert list_decisions(question) == ["allow once", "allow for this session", "deny"]


def test_an_argument_cannot_imitate_a_line_of_the_form() -> None:
    arguments: JsonObject = {"command": "x\n\nAsked because: you wanted it"}

    message = str(build_elicitation(replace(QUESTION, arguments=arguments))["message"])

    assert [line for line in message.splitlines() if line.startswith("Asked because")] == [
        "Asked because: no rule covers this (default mode)"
    ]


@pytest.mark.parametrize(
    ("decision", "extent"),
    [
        ("allow once", ApprovalScope.ONCE),
        ("allow for this session", ApprovalScope.SESSION),
        ("always allow", ApprovalScope.ALWAYS),
    ],
)
def test_a_lasting_approval_counts_only_if_it_was_offered(
    decision: str, extent: ApprovalScope
) -> None:
    answer: Json = {"action": "accept", "content": {"decision": decision}}
    unclear = Declined("the answer was not understood")

    assert read_answer(answer, LASTING) == Approved(extent)
    assert read_answer(answer, RememberOptions()) == (
        Approved() if extent is ApprovalScope.ONCE else unclear
    )


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        ({"action": "accept", "content": {"decision": "allow once"}}, Approved()),
        ({"action": "accept", "content": {"decision": "deny"}}, Declined("the user refused")),
        (
            {"action": "accept", "content": {"decision": "deny", "reason": " use make "}},
            Declined("the user refused: use make"),
        ),
        ({"action": "decline"}, Declined("the user declined")),
        ({"action": "cancel"}, Declined("the user dismissed the question")),
        ({"action": "accept"}, Declined("the answer was not understood")),
        ({"action": "accept", "content": {}}, Declined("the answer was not understood")),
        (
            {"action": "accept", "content": {"decision": True}},
            Declined("the answer was not understood"),
        ),
        ({}, Declined("the user dismissed the question")),
        (None, Declined("the answer was not understood")),
    ],
)
def test_only_an_explicit_approval_approves(answer: Json, reply: Approved | Declined) -> None:
    assert read_answer(answer, RememberOptions()) == reply


def test_hidden_characters_are_shown_as_escapes() -> None:
    assert (
        escape_control_characters("ls\u202e\x1b[2J\u200b\r é\n")
        == "ls\\u{202e}\\x1b[2J\\u{200b}\\x0d é\n"
    )


def test_a_long_argument_is_shortened_and_says_so() -> None:
    question = Question("Write", {"content": "x" * 5000}, QUESTION.decision, "")

    message = str(build_elicitation(question)["message"])

    assert " … (3500 characters left out) … xxx" in message
    assert len(message) < 2000


async def test_when_nobody_can_be_asked_the_denial_contains_the_line_that_would_allow_the_call() -> (
    None
):
    reply = await Approver().ask(
        QUESTION, ScriptedCaller(), not_covered_by_client=None, remember=forget
    )

    assert reply == Declined(
        "this client cannot be asked. "
        'To allow it, add to "permissions" in settings.json: "allow": ["Bash"]'
    )


async def test_the_client_fallback_relies_on_the_clients_own_confirmation() -> None:
    approver = Approver(AskFallback.CLIENT)

    assert (
        await approver.ask(QUESTION, ScriptedCaller(), not_covered_by_client=None, remember=forget)
        == Approved()
    )


async def test_the_client_fallback_says_what_it_does_not_cover() -> None:
    approver = Approver(AskFallback.CLIENT)

    reply = await approver.ask(
        QUESTION, ScriptedCaller(), not_covered_by_client="an ask rule", remember=forget
    )

    assert reply == Declined(
        "this client cannot be asked, and --ask-fallback client does not cover an ask rule. "
        'To allow it, add to "permissions" in settings.json: "allow": ["Bash"]'
    )


async def test_a_decline_is_not_passed_on_to_the_fallback() -> None:
    caller = ScriptedCaller(reply=Declined("the user declined"))

    reply = await Approver(AskFallback.CLIENT).ask(
        QUESTION, caller, not_covered_by_client=None, remember=forget
    )

    assert reply == Declined("the user declined")
