"""Hooks where a question would be put and where a call was denied, in the pipeline."""

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
    """A PermissionRequest hook that says this."""
    output = {"hookEventName": REQUEST, "decision": decision}
    return f"printf '%s' '{json.dumps({'hookSpecificOutput': output})}'; exit {code}"


ALLOWS = print_decision(behavior="allow")


def build_settings(*commands: str, **permissions: Any) -> dict[str, Any]:
    return {"permissions": permissions, "hooks": hooks_for(REQUEST, *commands)}


def extract_message(outcome: Outcome) -> str:
    assert isinstance(outcome, Refusal)
    assert outcome.by is RefusedBy.PERMISSION
    return outcome.message


async def test_a_hook_answers_a_question_that_nobody_asked_for(tmp_path: Path) -> None:
    tool, caller = RecordingTool("T", ask=ToolAsk("really?")), ScriptedCaller(Approved())
    async with open_dispatcher(tmp_path, tool) as line:
        outcome = await line.apply_settings(build_settings(ALLOWS)).call("T", caller, x=1)

    assert isinstance(outcome, Completed)
    assert tool.calls == [{"x": 1}]
    assert caller.questions == []


async def test_a_hook_is_not_asked_where_there_is_no_question(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T"), RecordingTool("U")) as line:
        line.apply_settings(build_settings("touch asked", allow=["T"], deny=["U"]))
        await line.call("T")
        await line.call("U")

    assert not (tmp_path / "asked").exists()


async def test_a_hooks_allow_does_not_pass_an_ask_rule(tmp_path: Path) -> None:
    tool, caller = RecordingTool("T"), ScriptedCaller(Approved())
    async with open_dispatcher(tmp_path, tool) as line:
        await line.apply_settings(build_settings(ALLOWS, ask=["T"])).call("T", caller)

    assert [question.decision.by.origin.rule for question in caller.questions] == ["T"]


async def test_a_hook_denies_with_its_message(tmp_path: Path) -> None:
    tool, caller = RecordingTool("T"), ScriptedCaller(Approved())
    denies = print_decision(behavior="deny", message="not on Fridays")
    async with open_dispatcher(tmp_path, tool) as line:
        outcome = await line.apply_settings(build_settings(ALLOWS, denies)).call("T", caller)

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
async def test_a_hook_that_does_not_answer_leaves_the_question_to_a_person(
    tmp_path: Path, command: str
) -> None:
    tool, caller = RecordingTool("T"), ScriptedCaller(Approved())
    async with open_dispatcher(tmp_path, tool) as line:
        outcome = await line.apply_settings(build_settings(command)).call("T", caller)

    assert isinstance(outcome, Completed)
    assert len(caller.questions) == 1


async def test_a_hook_that_must_not_fail_denies_when_it_fails(tmp_path: Path) -> None:
    guard: Json = {"type": "command", "command": "exit 1", "onFailure": "block"}
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        line.apply_settings({"hooks": {REQUEST: [{"hooks": [guard]}]}})
        outcome = await line.call("T", ScriptedCaller(Approved()))

    assert 'blocking because onFailure is "block"' in extract_message(outcome)


async def test_what_a_hook_rewrites_is_what_runs(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    rewrites = print_decision(behavior="allow", updatedInput={"x": 2})
    async with open_dispatcher(tmp_path, tool) as line:
        await line.apply_settings(build_settings(rewrites)).call("T", x=1)

    assert tool.calls == [{"x": 2}]


async def test_what_a_hook_rewrites_is_judged_again(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    rewrites = print_decision(behavior="allow", updatedInput={"x": "bad"})
    async with open_dispatcher(tmp_path, tool) as line:
        outcome = await line.apply_settings(build_settings(rewrites, deny=["T(x:bad)"])).call(
            "T", x="good"
        )

    assert "T(x:bad)" in extract_message(outcome)
    assert tool.calls == []


async def test_a_rewrite_that_breaks_the_schema_is_refused_and_names_the_hook(
    tmp_path: Path,
) -> None:
    tool = RecordingTool("T", validator=Forbids("y"))
    rewrites = print_decision(behavior="allow", updatedInput={"y": 1})
    async with open_dispatcher(tmp_path, tool) as line:
        outcome = await line.apply_settings(build_settings(rewrites)).call("T", x=1)

    assert isinstance(outcome, Refusal)
    assert outcome.by is RefusedBy.SCHEMA
    assert outcome.message.startswith("the arguments as rewritten by the hook printf")


async def test_a_rewrite_into_a_question_that_was_asked_for_is_put_to_a_person(
    tmp_path: Path,
) -> None:
    tool, caller = RecordingTool("T"), ScriptedCaller(Approved())
    rewrites = print_decision(behavior="allow", updatedInput={"x": "odd"})
    async with open_dispatcher(tmp_path, tool) as line:
        await line.apply_settings(build_settings(rewrites, ask=["T(x:odd)"])).call(
            "T", caller, x="even"
        )

    assert [question.arguments for question in caller.questions] == [{"x": "odd"}]
    assert tool.calls == [{"x": "odd"}]


async def test_a_call_made_again_with_the_answer_runs_no_hook_twice(tmp_path: Path) -> None:
    tool, asks = RecordingTool("T"), ScriptedCaller(AskDeferred({"permission": {}}))
    counts = f"echo >> count; {print_decision(behavior='allow', updatedInput={'x': 2})}"
    async with open_dispatcher(tmp_path, tool) as line:
        line.apply_settings(build_settings(counts, ask=["T"]))
        first = await line.call("T", asks, x=1)
        assert isinstance(first, Suspended)
        asked = line.scope.pending_questions.pop(first.state, {"name": "T", "arguments": {"x": 1}})
        assert asked is not None
        answer: JsonObject = {"action": "accept", "content": {"decision": "allow once"}}
        again = ToolCall(
            "call", "use", "T", {"x": 1}, approval_answer=ApprovalAnswer(asked, answer)
        )
        outcome = await line.dispatcher.dispatch(again, line.scope, asks)

    assert isinstance(outcome, Completed)
    assert tool.calls == [{"x": 2}]
    assert (tmp_path / "count").read_text() == "\n"


async def test_hooks_answer_before_a_question_is_denied_unasked(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        silent = build_settings(ALLOWS, denyInsteadOfPrompting=True)
        allowed = await line.apply_settings(silent).call("T")
        hard = await line.apply_settings(
            build_settings(ALLOWS, denyInsteadOfPrompting=True, ask=["T"])
        ).call("T")
        dont_ask = await line.apply_settings(build_settings(ALLOWS, defaultMode="dontAsk")).call(
            "T"
        )

    assert isinstance(allowed, Completed)
    assert "nobody is asked: denyInsteadOfPrompting" in extract_message(hard)
    assert "nobody is asked: dontAsk" in extract_message(dont_ask)


async def test_a_hook_is_told_what_would_be_asked(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        await line.apply_settings(build_settings("cat > told")).call("T", x=1)
        told = json.loads((tmp_path / "told").read_text("utf-8"))

        assert told == {
            "session_id": line.scope.id,
            "transcript_path": str(line.journal.path),
            "cwd": str(tmp_path),
            "permission_mode": "default",
            "hook_event_name": "PermissionRequest",
            "tool_name": "T",
            "tool_input": {"x": 1},
        }


async def dispatch_denied(line: DispatcherFixture, command: str, **permissions: Any) -> Outcome:
    return await line.apply_settings(
        {"permissions": permissions, "hooks": hooks_for(DENIED, command)}
    ).call("T", x=1)


async def test_a_hook_is_told_of_a_denial_and_may_let_it_be_tried_again(tmp_path: Path) -> None:
    output = {"hookEventName": DENIED, "retry": True}
    says = f"cat > told; printf '%s' '{json.dumps({'hookSpecificOutput': output})}'"
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        by_rule = await dispatch_denied(line, says, deny=["T"])
        told = json.loads((tmp_path / "told").read_text("utf-8"))
        for_want_of_an_answer = await dispatch_denied(line, says)

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
async def test_no_hook_undoes_a_denial(tmp_path: Path, command: str) -> None:
    tool = RecordingTool("T")
    async with open_dispatcher(tmp_path, tool) as line:
        outcome = await dispatch_denied(line, f"touch ran; {command}", deny=["T"])

    assert extract_message(outcome).startswith("Permission to use T has been denied")
    assert tool.calls == []
    assert (tmp_path / "ran").exists()


async def test_a_call_that_no_tool_would_take_is_no_denial(tmp_path: Path) -> None:
    tool = RecordingTool("T", validator=Forbids("x"))
    async with open_dispatcher(tmp_path, tool) as line:
        await dispatch_denied(line, "touch ran", deny=["T"])

    assert not (tmp_path / "ran").exists()


async def test_what_hooks_want_the_model_to_know_is_told_with_a_denial_too(tmp_path: Path) -> None:
    output = {
        "continue": False,
        "stopReason": "enough",
        "hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "ctx"},
    }
    hooks = hooks_for("PreToolUse", f"printf '%s' '{json.dumps(output)}'")
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        outcome = await line.apply_settings({"permissions": {"deny": ["T"]}, "hooks": hooks}).call(
            "T"
        )

    assert extract_message(outcome).splitlines()[1:] == [
        "PreToolUse:T hook additional context: ctx",
        "A hook asks to stop here: enough",
    ]
