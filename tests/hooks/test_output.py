"""What a hook said, by exit code, stdout and event."""

import json

import pytest

from mcp_dispatch.hooks.events import HookEventName
from mcp_dispatch.hooks.output import HookAnswer, HookChanges, HookFailure, HookOutput, parse_answer
from mcp_dispatch.model.calls import NewOutput
from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json

PRE = HookEventName.PRE_TOOL_USE
POST = HookEventName.POST_TOOL_USE
FAILED = HookEventName.POST_TOOL_USE_FAILURE


def said(event: HookEventName = PRE, **fields: Json) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": event.value, **fields}})


def decided(decision: str, reason: str = "because") -> str:
    return said(permissionDecision=decision, permissionDecisionReason=reason)


def exit_failure(code: int) -> HookAnswer:
    return HookAnswer(failure=HookFailure(f"Failed with non-blocking status code {code}: oh"))


NOTHING = HookAnswer()
DENY = HookAnswer(Effect.DENY, "because")
BLOCKED = HookAnswer(Effect.DENY, "oh\nno")


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
@pytest.mark.parametrize(
    ("stdout", "answer"),
    [
        (decided("allow"), HookAnswer(Effect.ALLOW, "because")),
        (decided("ask"), HookAnswer(Effect.ASK, "because")),
        (decided("deny"), DENY),
        ("\n  " + decided("deny") + "\n\n", DENY),
        ("\ufeff" + decided("deny"), DENY),
        (json.dumps({"decision": "approve", "reason": "r"}), HookAnswer(Effect.ALLOW, "r")),
        (json.dumps({"decision": "block", "reason": "r"}), HookAnswer(Effect.DENY, "r")),
        ("{}", NOTHING),
        (json.dumps({"unknown": [1]}), NOTHING),
        (json.dumps({"suppressOutput": True}), NOTHING),
        (json.dumps({"systemMessage": "hello"}), HookAnswer(message="hello")),
        (json.dumps({"continue": True}), NOTHING),
        (
            json.dumps({"continue": False}),
            HookAnswer(changes=HookChanges(stop_reason="a hook said so")),
        ),
        (
            json.dumps({"continue": False, "stopReason": "s"}),
            HookAnswer(changes=HookChanges(stop_reason="s")),
        ),
        (json.dumps({"reason": '{"continue": false}'}), NOTHING),
        (said(updatedInput={"a": [1]}), HookAnswer(changes=HookChanges(rewrite={"a": [1]}))),
        (said(updatedInput={}), HookAnswer(changes=HookChanges(rewrite={}))),
        (said(additionalContext="c"), HookAnswer(context="c")),
        (
            decided("defer"),
            HookAnswer(notes=("defer has no meaning here and is dropped",)),
        ),
        (
            json.dumps({"async": True}),
            HookAnswer(
                notes=(
                    'it said "async" too late, at its end: it was waited for and decides nothing',
                )
            ),
        ),
    ],
)
def test_json_decides_before_a_call_on_every_exit_code_but_2(
    code: int, stdout: str, answer: HookAnswer
) -> None:
    assert parse_answer(PRE, HookOutput(code, stdout, "oh\nno")) == answer


@pytest.mark.parametrize("event", [POST, FAILED])
@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"decision": "block", "reason": "r"}, HookAnswer(Effect.DENY, "r")),
        ({"decision": "approve", "reason": "r"}, NOTHING),
        ({"continue": False, "stopReason": "s"}, HookAnswer(changes=HookChanges(stop_reason="s"))),
        ({"specific": {"additionalContext": "c"}}, HookAnswer(context="c")),
        ({"specific": {"permissionDecision": "deny"}}, NOTHING),
        (
            {"specific": {"updatedMCPToolOutput": None}},
            HookAnswer(changes=HookChanges(output=NewOutput(None))),
        ),
        (
            {"specific": {"updatedToolOutput": [1]}},
            HookAnswer(changes=HookChanges(output=NewOutput([1]))),
        ),
    ],
)
def test_json_decides_after_a_call(
    event: HookEventName, code: int, fields: dict[str, Json], answer: HookAnswer
) -> None:
    document = {key: value for key, value in fields.items() if key != "specific"}
    if isinstance(specific := fields.get("specific"), dict):
        document["hookSpecificOutput"] = {"hookEventName": event.value, **specific}

    assert parse_answer(event, HookOutput(code, json.dumps(document), "oh")) == answer


@pytest.mark.parametrize("event", [PRE, POST, FAILED])
@pytest.mark.parametrize("stdout", ["", "all is well", "[1]", '"{}"', 'log {"decision":"block"}'])
def test_what_is_not_json_decides_nothing(event: HookEventName, stdout: str) -> None:
    assert parse_answer(event, HookOutput(0, stdout, "oh")) == NOTHING
    assert parse_answer(event, HookOutput(1, stdout, "oh\nno")) == exit_failure(1)
    assert parse_answer(event, HookOutput(127, stdout, "oh\nno")) == exit_failure(127)
    assert parse_answer(event, HookOutput(2, stdout, "oh\nno")) == BLOCKED


@pytest.mark.parametrize("code", [0, 1, -9])
@pytest.mark.parametrize(
    "stdout",
    [
        "{",
        '{"decision": "approve"} {"decision": "approve"}',
        '{"decision": "approve"} trailing',
        '{"decision": "approved"}',
        '{"decision": null}',
        '{"continue": "false"}',
        '{"continue": null}',
        '{"systemMessage": 5}',
        '{"hookSpecificOutput": null}',
        '{"hookSpecificOutput": {"permissionDecision": "allow"}}',
        said(POST, permissionDecision="allow"),
        said(permissionDecision="Allow"),
        said(permissionDecision="allow", updatedInput=None),
        said(permissionDecision="allow", updatedInput="x"),
        said(permissionDecision="allow", updatedInput=float("nan")),
        said(permissionDecision="allow", updatedInput={"a": float("inf")}),
        said(permissionDecision="allow").replace("}}", ', "updatedInput": {"a": 1e400}}}'),
        '{"a":' * 100_000,
    ],
)
def test_json_that_is_no_answer_allows_nothing_and_is_an_error(code: int, stdout: str) -> None:
    answer = parse_answer(PRE, HookOutput(code, stdout, "oh"))

    assert answer.failure is not None
    assert answer == HookAnswer(failure=answer.failure)
    assert answer.failure.message.startswith("stdout is not ")


def test_the_error_says_what_is_wrong_with_the_answer() -> None:
    wrong_event = parse_answer(PRE, HookOutput(0, said(POST)))
    wrong_value = parse_answer(PRE, HookOutput(0, '{"continue": "no"}'))

    assert wrong_event.failure == HookFailure(
        "stdout is not a hook's answer: hookSpecificOutput.hookEventName: "
        'expected "PreToolUse", got "PostToolUse"'
    )
    assert wrong_value.failure == HookFailure(
        "stdout is not a hook's answer: continue: Input should be a valid boolean"
    )


@pytest.mark.parametrize("event", [PRE, POST, FAILED])
@pytest.mark.parametrize(
    ("stdout", "reason"),
    [
        (decided("allow"), "oh\nno"),
        (json.dumps({"decision": "approve", "reason": "r"}), "oh\nno"),
        (json.dumps({"decision": "block", "reason": "r"}), "r"),
        (json.dumps({"decision": "block"}), "oh\nno"),
        ("{}", "oh\nno"),
        ("{", "oh\nno"),
        ('{"continue": 5}', "oh\nno"),
    ],
)
def test_exit_2_blocks_whatever_was_printed(event: HookEventName, stdout: str, reason: str) -> None:
    answer = parse_answer(event, HookOutput(2, stdout, "\noh\nno\n"))

    assert (answer.effect, answer.reason, answer.failure) == (Effect.DENY, reason, None)


def test_exit_2_keeps_the_reason_and_context_of_a_deny_but_rewrites_nothing() -> None:
    stdout = said(
        permissionDecision="deny",
        permissionDecisionReason="mine",
        additionalContext="c",
        updatedInput={},
    )

    answer = parse_answer(PRE, HookOutput(2, stdout, "oh"))

    assert answer == HookAnswer(Effect.DENY, "mine", "c")


def test_of_two_decisions_in_one_answer_the_stricter_stands() -> None:
    document = json.loads(decided("allow", ""))

    answer = parse_answer(PRE, HookOutput(0, json.dumps({**document, "decision": "block"})))

    assert answer == HookAnswer(Effect.DENY)


def test_a_hook_that_was_killed_can_forbid_but_not_allow() -> None:
    note = "it was killed by signal 9; what it allows does not count"

    assert parse_answer(PRE, HookOutput(-9)) == HookAnswer(
        failure=HookFailure("killed by signal 9")
    )
    assert parse_answer(PRE, HookOutput(-9, decided("deny"))) == DENY
    assert parse_answer(PRE, HookOutput(-9, decided("allow"))) == HookAnswer(notes=(note,))


def test_an_answer_whose_end_is_missing_allows_nothing() -> None:
    flooded = HookOutput(0, decided("allow") + " " * 1000, dropped_bytes=7)

    answer = parse_answer(PRE, flooded)

    assert answer == HookAnswer(
        failure=HookFailure("stdout is not short enough to be read: 7 bytes over")
    )


def test_half_a_surrogate_pair_does_not_lose_a_deny() -> None:
    stdout = said(permissionDecision="deny", permissionDecisionReason="file \udcff \U0001f600")

    assert parse_answer(PRE, HookOutput(0, stdout)) == HookAnswer(
        Effect.DENY, "file \ufffd \U0001f600"
    )


def test_a_reason_or_message_is_cut_at_10000_characters_and_a_context_kept_whole() -> None:
    cut = "x" * 10_000 + "\n... [1 characters truncated] ..."
    long = "x" * 10_001

    stdout = said(permissionDecision="ask", permissionDecisionReason=long, additionalContext=long)

    assert parse_answer(PRE, HookOutput(0, stdout)) == HookAnswer(Effect.ASK, cut, long)
    assert parse_answer(PRE, HookOutput(2, "", long)) == HookAnswer(Effect.DENY, cut)
    assert parse_answer(PRE, HookOutput(0, json.dumps({"systemMessage": long}))).message == cut


def test_a_failing_hook_without_a_word_is_an_error_of_its_own() -> None:
    assert parse_answer(PRE, HookOutput(1)).failure == HookFailure(
        "Failed with non-blocking status code 1: nothing on stderr"
    )
