"""PermissionRequest and PermissionDenied hooks in the pipeline."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_dispatch.model.approval import Approved, AskDeferred
from mcp_dispatch.model.calls import ApprovalAnswer, Completed, Outcome, ToolCall
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import Refusal, RefusedBy, Suspended
from mcp_dispatch.model.tools import ToolAsk
from tests.support.dispatcher import DispatcherFixture, hooks_for, open_dispatcher
from tests.support.stand_ins import Forbids, RecordingTool, ScriptedCaller

REQUEST, DENIED = "PermissionRequest", "PermissionDenied"


def print_decision(code: int = 0, **decision: Json) -> str:
    """Return a PermissionRequest hook command that prints this decision."""
    output = {"hookEventName": REQUEST, "decision": decision}
    return f"printf '%s' '{json.dumps({'hookSpecificOutput': output})}'; exit {code}"


ALLOWS = print_decision(behavior="allow")


def build_settings(*commands: str, **permissions: Any) -> dict[str, Any]:
    return {"permissions": permissions, "hooks": hooks_for(REQUEST, *commands)}


def extract_message(outcome: Outcome) -> str:
    assert isinstance(outcome, Refusal)
    assert outcome.by is RefusedBy.PERMISSION
    return outcome.message


async def test_a_hook_answers_a_question_that_no_rule_requires(tmp_path: Path) -> None:
    tool, caller = RecordingTool("T", ask=ToolAsk("really?")), ScriptedCaller(Approved())
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(build_settings(ALLOWS)).call("T", caller, x=1)

    assert isinstance(outcome, Completed)
    assert tool.calls == [{"x": 1}]
    assert caller.questions == []


async def test_the_hook_does_not_run_without_a_question(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T"), RecordingTool("U")) as fixture:
        fixture.apply_settings(build_settings("touch asked", allow=["T"], deny=["U"]))
        await fixture.call("T")
        await fixture.call("U")

    assert not (tmp_path / "asked").exists()


async def test_a_hooks_allow_does_not_override_an_ask_rule(tmp_path: Path) -> None:
    tool, caller = RecordingTool("T"), ScriptedCaller(Approved())
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.apply_settings(build_settings(ALLOWS, ask=["T"])).call("T", caller)

    assert [question.decision.by.origin.rule for question in caller.questions] == ["T"]


async def test_a_hook_denies_with_its_message(tmp_path: Path) -> None:
    tool, caller = RecordingTool("T"), ScriptedCaller(Approved())
    denies = print_decision(behavior="deny", message="not on Fridays")
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(build_settings(ALLOWS, denies)).call("T", caller)

    assert extract_message(outcome).startswith(
        "Permission to use T has been denied: not on Fridays ("
    )
    assert (tool.calls, caller.questions) == ([], [])


@pytest.mark.parametrize(
    "command",
    [
        "true",
        "exit 1",
        "echo no >&2; exit 2",
        print_decision(2, behavior="allow"),
        'echo \'{"decision": "approve"}\'',
        "echo '{'",
        "kill -9 $$",
        "./missing",
        print_decision(behavior="perhaps"),
    ],
)
async def test_a_person_is_asked_if_the_hook_does_not_decide(tmp_path: Path, command: str) -> None:
    tool, caller = RecordingTool("T"), ScriptedCaller(Approved())
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(build_settings(command)).call("T", caller)

    assert isinstance(outcome, Completed)
    assert len(caller.questions) == 1


async def test_a_hook_that_must_not_fail_denies_when_it_fails(tmp_path: Path) -> None:
    guard: Json = {"type": "command", "command": "exit 1", "onFailure": "block"}
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        fixture.apply_settings({"hooks": {REQUEST: [{"hooks": [guard]}]}})
        outcome = await fixture.call("T", ScriptedCaller(Approved()))

    assert 'blocking because onFailure is "block"' in extract_message(outcome)


async def test_arguments_rewritten_by_a_hook_run(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    rewrites = print_decision(behavior="allow", updatedInput={"x": 2})
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.apply_settings(build_settings(rewrites)).call("T", x=1)

    assert tool.calls == [{"x": 2}]


async def test_arguments_rewritten_by_a_hook_are_evaluated_again(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    rewrites = print_decision(behavior="allow", updatedInput={"x": "bad"})
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(build_settings(rewrites, deny=["T(x:bad)"])).call(
            "T", x="good"
        )

    assert "T(x:bad)" in extract_message(outcome)
    assert tool.calls == []


async def test_a_rewrite_that_violates_the_schema_is_refused_and_names_the_hook(
    tmp_path: Path,
) -> None:
    tool = RecordingTool("T", validator=Forbids("y"))
    rewrites = print_decision(behavior="allow", updatedInput={"y": 1})
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(build_settings(rewrites)).call("T", x=1)

    assert isinstance(outcome, Refusal)
    assert outcome.by is RefusedBy.SCHEMA
    assert outcome.message.startswith("the arguments as rewritten by the hook printf")


async def test_a_person_is_asked_about_a_rewrite_that_an_ask_rule_matches(
    tmp_path: Path,
) -> None:
    tool, caller = RecordingTool("T"), ScriptedCaller(Approved())
    rewrites = print_decision(behavior="allow", updatedInput={"x": "odd"})
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.apply_settings(build_settings(rewrites, ask=["T(x:odd)"])).call(
            "T", caller, x="even"
        )

    assert [question.arguments for question in caller.questions] == [{"x": "odd"}]
    assert tool.calls == [{"x": "odd"}]


async def test_a_call_repeated_with_the_answer_runs_no_hook_twice(tmp_path: Path) -> None:
    tool, asks = RecordingTool("T"), ScriptedCaller(AskDeferred({"permission": {}}))
    counts = f"echo >> count; {print_decision(behavior='allow', updatedInput={'x': 2})}"
    async with open_dispatcher(tmp_path, tool) as fixture:
        fixture.apply_settings(build_settings(counts, ask=["T"]))
        first = await fixture.call("T", asks, x=1)
        assert isinstance(first, Suspended)
        asked = fixture.scope.pending_questions.pop(
            first.state, {"name": "T", "arguments": {"x": 1}}
        )
        assert asked is not None
        answer: JsonObject = {"action": "accept", "content": {"decision": "allow once"}}
        again = ToolCall(
            "call", "use", "T", {"x": 1}, approval_answer=ApprovalAnswer(asked, answer)
        )
        outcome = await fixture.dispatcher.dispatch(again, fixture.scope, asks)

    assert isinstance(outcome, Completed)
    assert tool.calls == [{"x": 2}]
    assert (tmp_path / "count").read_text() == "\n"


async def test_hooks_answer_before_a_question_is_denied_without_asking(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        silent = build_settings(ALLOWS, denyInsteadOfPrompting=True)
        allowed = await fixture.apply_settings(silent).call("T")
        hard = await fixture.apply_settings(
            build_settings(ALLOWS, denyInsteadOfPrompting=True, ask=["T"])
        ).call("T")
        dont_ask = await fixture.apply_settings(build_settings(ALLOWS, defaultMode="dontAsk")).call(
            "T"
        )

    assert isinstance(allowed, Completed)
    assert "nobody is asked: denyInsteadOfPrompting" in extract_message(hard)
    assert "nobody is asked: dontAsk" in extract_message(dont_ask)


async def test_the_hook_input_contains_the_question(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        await fixture.apply_settings(build_settings("cat > told")).call("T", x=1)
        told = json.loads((tmp_path / "told").read_text("utf-8"))

        assert told == {
            "session_id": fixture.scope.id,
            "transcript_path": str(fixture.journal.path),
            "cwd": str(tmp_path),
            "permission_mode": "default",
            "hook_event_name": "PermissionRequest",
            "tool_name": "T",
            "tool_input": {"x": 1},
        }


async def dispatch_denied(fixture: DispatcherFixture, command: str, **permissions: Any) -> Outcome:
    return await fixture.apply_settings(
        {"permissions": permissions, "hooks": hooks_for(DENIED, command)}
    ).call("T", x=1)


async def test_a_hook_receives_a_denial_and_can_permit_a_retry(tmp_path: Path) -> None:
    output = {"hookEventName": DENIED, "retry": True}
    says = f"cat > told; printf '%s' '{json.dumps({'hookSpecificOutput': output})}'"
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        by_rule = await dispatch_denied(fixture, says, deny=["T"])
        told = json.loads((tmp_path / "told").read_text("utf-8"))
        for_want_of_an_answer = await dispatch_denied(fixture, says)

    text = extract_message(by_rule)
    assert text.endswith("\nA hook says that the call may be made again.")
    assert (told["tool_name"], told["tool_input"], told["tool_use_id"], told["reason"]) == (
        "T",
        {"x": 1},
        "use",
        text.removesuffix("\nA hook says that the call may be made again."),
    )
    assert extract_message(for_want_of_an_answer).endswith("may be made again.")


@pytest.mark.parametrize("command", ["exit 2", "exit 1", "echo '{'", "true", "./missing"])
async def test_no_hook_reverses_a_denial(tmp_path: Path, command: str) -> None:
    tool = RecordingTool("T")
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await dispatch_denied(fixture, f"touch ran; {command}", deny=["T"])

    assert extract_message(outcome).startswith("Permission to use T has been denied")
    assert tool.calls == []
    assert (tmp_path / "ran").exists()


async def test_an_invalid_call_runs_no_denial_hook(tmp_path: Path) -> None:
    tool = RecordingTool("T", validator=Forbids("x"))
    async with open_dispatcher(tmp_path, tool) as fixture:
        await dispatch_denied(fixture, "touch ran", deny=["T"])

    assert not (tmp_path / "ran").exists()


async def test_additional_context_of_hooks_follows_a_denial_too(tmp_path: Path) -> None:
    output = {
        "continue": False,
        "stopReason": "enough",
        "hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "ctx"},
    }
    hooks = hooks_for("PreToolUse", f"printf '%s' '{json.dumps(output)}'")
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        outcome = await fixture.apply_settings(
            {"permissions": {"deny": ["T"]}, "hooks": hooks}
        ).call("T")

    assert extract_message(outcome).splitlines()[1:] == [
        "PreToolUse:T hook additional context: ctx",
        "A hook asks to stop here: enough",
    ]
