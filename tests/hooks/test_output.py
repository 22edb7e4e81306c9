"""Tests of how the exit code, stdout and event of a hook become its answer."""

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


def build_output(event: HookEventName = PRE, **fields: Json) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": event.value, **fields}})


def build_decision(decision: str, reason: str = "because") -> str:
    return build_output(permissionDecision=decision, permissionDecisionReason=reason)


def build_exit_failure(code: int) -> HookAnswer:
    return HookAnswer(failure=HookFailure(f"Failed with non-blocking status code {code}: oh"))


NOTHING = HookAnswer()
DENY = HookAnswer(Effect.DENY, "because")
BLOCKED = HookAnswer(Effect.DENY, "oh\nno")


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
@pytest.mark.parametrize(
    ("stdout", "answer"),
    [
        (build_decision("allow"), HookAnswer(Effect.ALLOW, "because")),
        (build_decision("ask"), HookAnswer(Effect.ASK, "because")),
        (build_decision("deny"), DENY),
        ("\n  " + build_decision("deny") + "\n\n", DENY),
        ("\ufeff" + build_decision("deny"), DENY),
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
        (
            build_output(updatedInput={"a": [1]}),
            HookAnswer(changes=HookChanges(rewrite={"a": [1]})),
        ),
        (build_output(updatedInput={}), HookAnswer(changes=HookChanges(rewrite={}))),
        (build_output(additionalContext="c"), HookAnswer(context="c")),
        (
            build_decision("defer"),
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
def test_json_output_of_a_pre_hook_counts_for_every_exit_code_except_2(
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
def test_json_output_of_a_post_hook_counts_for_exit_codes_0_and_1(
    event: HookEventName, code: int, fields: dict[str, Json], answer: HookAnswer
) -> None:
    document = {key: value for key, value in fields.items() if key != "specific"}
    if isinstance(specific := fields.get("specific"), dict):
        document["hookSpecificOutput"] = {"hookEventName": event.value, **specific}

    assert parse_answer(event, HookOutput(code, json.dumps(document), "oh")) == answer


@pytest.mark.parametrize("event", [PRE, POST, FAILED])
@pytest.mark.parametrize("stdout", ["", "all is well", "[1]", '"{}"', 'log {"decision":"block"}'])
def test_output_that_is_not_a_json_object_decides_nothing(
    event: HookEventName, stdout: str
) -> None:
    assert parse_answer(event, HookOutput(0, stdout, "oh")) == NOTHING
    assert parse_answer(event, HookOutput(1, stdout, "oh\nno")) == build_exit_failure(1)
    assert parse_answer(event, HookOutput(127, stdout, "oh\nno")) == build_exit_failure(127)
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
        build_output(POST, permissionDecision="allow"),
        build_output(permissionDecision="Allow"),
        build_output(permissionDecision="allow", updatedInput=None),
        build_output(permissionDecision="allow", updatedInput="x"),
        build_output(permissionDecision="allow", updatedInput=float("nan")),
        build_output(permissionDecision="allow", updatedInput={"a": float("inf")}),
        build_output(permissionDecision="allow").replace("}}", ', "updatedInput": {"a": 1e400}}}'),
        '{"a":' * 100_000,
    ],
)
def test_invalid_json_output_allows_nothing_and_is_a_failure(code: int, stdout: str) -> None:
    answer = parse_answer(PRE, HookOutput(code, stdout, "oh"))

    assert answer.failure is not None
    assert answer == HookAnswer(failure=answer.failure)
    assert answer.failure.message.startswith("stdout is not ")


def test_the_failure_names_the_invalid_field() -> None:
    wrong_event = parse_answer(PRE, HookOutput(0, build_output(POST)))
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
        (build_decision("allow"), "oh\nno"),
        (json.dumps({"decision": "approve", "reason": "r"}), "oh\nno"),
        (json.dumps({"decision": "block", "reason": "r"}), "r"),
        (json.dumps({"decision": "block"}), "oh\nno"),
        ("{}", "oh\nno"),
        ("{", "oh\nno"),
        ('{"continue": 5}', "oh\nno"),
    ],
)
def test_exit_code_2_blocks_regardless_of_stdout(
    event: HookEventName, stdout: str, reason: str
) -> None:
    answer = parse_answer(event, HookOutput(2, stdout, "\noh\nno\n"))

    assert (answer.effect, answer.reason, answer.failure) == (Effect.DENY, reason, None)


def test_exit_code_2_keeps_the_reason_and_context_of_a_deny_but_drops_its_rewrite() -> None:
    stdout = build_output(
        permissionDecision="deny",
        permissionDecisionReason="mine",
        additionalContext="c",
        updatedInput={},
    )

    answer = parse_answer(PRE, HookOutput(2, stdout, "oh"))

    assert answer == HookAnswer(Effect.DENY, "mine", "c")


def test_the_stricter_of_two_decisions_in_one_answer_wins() -> None:
    document = json.loads(build_decision("allow", ""))

    answer = parse_answer(PRE, HookOutput(0, json.dumps({**document, "decision": "block"})))

    assert answer == HookAnswer(Effect.DENY)


def test_a_killed_hook_can_deny_but_not_allow() -> None:
    note = "it was killed by signal 9; what it allows does not count"

    assert parse_answer(PRE, HookOutput(-9)) == HookAnswer(
        failure=HookFailure("killed by signal 9")
    )
    assert parse_answer(PRE, HookOutput(-9, build_decision("deny"))) == DENY
    assert parse_answer(PRE, HookOutput(-9, build_decision("allow"))) == HookAnswer(notes=(note,))


def test_a_truncated_answer_allows_nothing() -> None:
    truncated = HookOutput(0, build_decision("allow") + " " * 1000, dropped_bytes=7)

    answer = parse_answer(PRE, truncated)

    assert answer == HookAnswer(
        failure=HookFailure("stdout is not short enough to be read: 7 bytes over")
    )


def test_a_deny_with_a_lone_surrogate_in_its_reason_still_denies() -> None:
    stdout = build_output(
        permissionDecision="deny", permissionDecisionReason="file \udcff \U0001f600"
    )

    assert parse_answer(PRE, HookOutput(0, stdout)) == HookAnswer(
        Effect.DENY, "file \ufffd \U0001f600"
    )


def test_a_reason_or_message_is_cut_at_10000_characters_and_a_context_is_not_cut() -> None:
    cut = "x" * 10_000 + "\n... [1 characters truncated] ..."
    long = "x" * 10_001

    stdout = build_output(
        permissionDecision="ask", permissionDecisionReason=long, additionalContext=long
    )

    assert parse_answer(PRE, HookOutput(0, stdout)) == HookAnswer(Effect.ASK, cut, long)
    assert parse_answer(PRE, HookOutput(2, "", long)) == HookAnswer(Effect.DENY, cut)
    assert parse_answer(PRE, HookOutput(0, json.dumps({"systemMessage": long}))).message == cut


def test_a_failure_without_stderr_reports_that_stderr_is_empty() -> None:
    assert parse_answer(PRE, HookOutput(1)).failure == HookFailure(
        "Failed with non-blocking status code 1: nothing on stderr"
    )
