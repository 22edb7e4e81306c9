"""One call through every stage, with real parts and real hook scripts."""

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from mcp_dispatch.model.approval import ApprovalReply, Approved, AskDeferred, Declined, Question
from mcp_dispatch.model.calls import ApprovalAnswer, Completed, Outcome, ToolCall
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError, Refusal, RefusedBy, Suspended
from mcp_dispatch.model.tools import (
    CallContext,
    Interrupt,
    ToolAsk,
    ToolResult,
    build_error_result,
    build_text_result,
)
from mcp_dispatch.registry.registry import build_registry
from tests.support.dispatcher import (
    extract_texts,
    hooks_for,
    open_dispatcher,
    print_output,
)
from tests.support.stand_ins import Forbids, RecordingTool, ScriptedCaller


async def test_an_allowed_call_is_completed(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings({"permissions": {"allow": ["T"]}}).call("T", x=1)

    assert extract_texts(outcome) == ["done"]
    assert tool.calls == [{"x": 1}]


async def test_a_deny_rule_wins_over_a_hook_that_allows(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    rules = {
        "permissions": {"deny": ["T"]},
        "hooks": hooks_for("PreToolUse", print_output(permissionDecision="allow")),
    }
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(rules).call("T")

    assert outcome == Refusal(
        RefusedBy.PERMISSION,
        "Permission to use T has been denied: a deny rule forbids it "
        f"(T in {tmp_path / 'settings.json'}:1).",
    )
    assert tool.calls == []


async def test_an_ask_rule_still_asks_when_a_hook_allows(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    caller = ScriptedCaller(reply=Declined("no"))
    rules = {
        "permissions": {"ask": ["T"]},
        "hooks": hooks_for("PreToolUse", print_output(permissionDecision="allow")),
    }
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(rules).call("T", caller)

    assert isinstance(outcome, Refusal)
    assert len(caller.questions) == 1
    assert tool.calls == []


async def test_a_hooks_allow_skips_the_question_if_no_rule_matches(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    caller = ScriptedCaller()
    rules = {"hooks": hooks_for("PreToolUse", print_output(permissionDecision="allow"))}
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.apply_settings(rules).call("T", caller)

    assert (tool.calls, caller.questions) == ([{}], [])


async def test_a_hook_that_exits_with_two_denies_and_its_message_reaches_the_model(
    tmp_path: Path,
) -> None:
    tool = RecordingTool("T")
    rules = {
        "permissions": {"allow": ["T"]},
        "hooks": hooks_for("PreToolUse", "echo not on Fridays >&2; exit 2"),
    }
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(rules).call("T")

    assert isinstance(outcome, Refusal)
    assert "not on Fridays" in outcome.message
    assert tool.calls == []


async def test_a_rewrite_is_evaluated_again(tmp_path: Path) -> None:
    tool = RecordingTool("Bash")
    rewrite = print_output(permissionDecision="allow", updatedInput={"command": "rm x"})
    rules = {"permissions": {"deny": ["Bash(rm:*)"]}, "hooks": hooks_for("PreToolUse", rewrite)}
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(rules).call("Bash", command="ls")

    assert isinstance(outcome, Refusal)
    assert "Bash(rm:*)" in outcome.message
    assert tool.calls == []


async def test_a_deny_of_the_original_arguments_stands_after_a_rewrite(tmp_path: Path) -> None:
    tool = RecordingTool("Bash")
    rewrite = print_output(permissionDecision="allow", updatedInput={"command": "ls"})
    rules = {"permissions": {"deny": ["Bash(rm:*)"]}, "hooks": hooks_for("PreToolUse", rewrite)}
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(rules).call("Bash", command="rm x")

    assert isinstance(outcome, Refusal)
    assert "Bash(rm:*)" in outcome.message
    assert tool.calls == []


async def test_a_rewrite_that_violates_the_schema_is_refused_and_the_hook_is_named(
    tmp_path: Path,
) -> None:
    tool = RecordingTool("T", validator=Forbids("bad"))
    command = print_output(permissionDecision="allow", updatedInput={"bad": 1})
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings({"hooks": hooks_for("PreToolUse", command)}).call(
            "T"
        )

    assert isinstance(outcome, Refusal)
    assert outcome.by is RefusedBy.SCHEMA
    assert outcome.message.startswith("the arguments as rewritten by the hook ")
    assert tool.calls == []


async def test_a_valid_rewrite_runs(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    command = print_output(permissionDecision="allow", updatedInput={"x": 2})
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.apply_settings({"hooks": hooks_for("PreToolUse", command)}).call("T", x=1)

    assert tool.calls == [{"x": 2}]


async def test_additional_context_of_hooks_follows_the_result(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    after = json.dumps(
        {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "formatted"}}
    )
    rules = {
        "permissions": {"allow": ["T"]},
        "hooks": {
            **hooks_for("PreToolUse", print_output(additionalContext="mind the gap")),
            **hooks_for("PostToolUse", f"printf '%s' '{after}'"),
        },
    }
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(rules).call("T")

    assert extract_texts(outcome) == [
        "done",
        "PreToolUse:T hook additional context: mind the gap",
        "PostToolUse:T hook additional context: formatted",
    ]


async def test_refusals_before_the_rules_fire_no_hook(tmp_path: Path) -> None:
    tool = RecordingTool("T", validator=Forbids("bad"))
    witness = tmp_path / "hook-ran"
    rules = {"hooks": hooks_for("PreToolUse", f"touch '{witness}'")}
    async with open_dispatcher(tmp_path, tool) as fixture:
        fixture.apply_settings(rules)
        unknown = await fixture.call("Nope")
        invalid = await fixture.call("T", bad=1)

    assert isinstance(unknown, Refusal)
    assert isinstance(invalid, Refusal)
    assert (unknown.by, invalid.by) == (RefusedBy.LOOKUP, RefusedBy.SCHEMA)
    assert not witness.exists()


async def test_a_tool_that_raises_becomes_an_error_result_and_later_calls_run(
    tmp_path: Path,
) -> None:
    async def crash(_: JsonObject, __: CallContext) -> ToolResult:
        raise ZeroDivisionError("by zero")

    async with open_dispatcher(
        tmp_path, RecordingTool("T", body=crash), RecordingTool("U")
    ) as fixture:
        fixture.apply_settings({"permissions": {"allow": ["T", "U"]}})
        crashed = await fixture.call("T")
        fine = await fixture.call("U")

    assert extract_texts(crashed) == [
        "<tool_use_error>T failed unexpectedly: ZeroDivisionError: by zero. "
        "The server's log has the details.</tool_use_error>"
    ]
    assert extract_texts(fine) == ["done"]


async def test_a_protocol_error_of_an_upstream_is_the_outcome(tmp_path: Path) -> None:
    error = ProtocolError(-32042, "later", {"retry": 5})

    async def refuse(_: JsonObject, __: CallContext) -> ProtocolError:
        return error

    async with open_dispatcher(tmp_path, RecordingTool("T", body=refuse)) as fixture:
        outcome = await fixture.apply_settings({"permissions": {"allow": ["T"]}}).call("T")

    assert outcome == error


async def test_no_slot_is_held_while_a_person_is_asked(tmp_path: Path) -> None:
    answer = anyio.Event()

    async def think(_: Question) -> ApprovalReply:
        await answer.wait()
        return Approved()

    asked, free = RecordingTool("Asked"), RecordingTool("Free")
    outcomes: list[Outcome] = []
    async with open_dispatcher(tmp_path, asked, free) as fixture:
        fixture.apply_settings({"permissions": {"allow": ["Free"], "ask": ["Asked"]}})

        async def ask() -> None:
            outcomes.append(await fixture.call("Asked", ScriptedCaller(reply=think)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await wait_all_tasks_blocked()
            outcomes.append(await fixture.call("Free"))
            answer.set()

    assert [extract_texts(outcome) for outcome in outcomes] == [["done"], ["done"]]
    assert (len(free.calls), len(asked.calls)) == (1, 1)


async def test_a_rule_that_becomes_deny_while_a_person_is_asked_denies(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    async with open_dispatcher(tmp_path, tool) as fixture:
        fixture.apply_settings({"permissions": {"ask": ["T"]}})

        async def allow_but_the_rules_change(_: Question) -> ApprovalReply:
            fixture.apply_settings({"permissions": {"deny": ["T"]}})
            return Approved()

        outcome = await fixture.call("T", ScriptedCaller(reply=allow_but_the_rules_change))

    assert isinstance(outcome, Refusal)
    assert "has been denied" in outcome.message
    assert tool.calls == []


async def test_a_question_deferred_to_the_client_runs_nothing_until_it_is_answered(
    tmp_path: Path,
) -> None:
    tool = RecordingTool("T")
    ran = tmp_path / "hook-runs"
    caller = ScriptedCaller(reply=AskDeferred({"permission": {}}))
    yes: JsonObject = {"action": "accept", "content": {"decision": "allow once"}}
    async with open_dispatcher(tmp_path, tool) as fixture:
        fixture.apply_settings({"hooks": hooks_for("PreToolUse", f"echo x >> '{ran}'")})
        first = await fixture.call("T", caller, x=1)
        before = list(tool.calls)
        assert isinstance(first, Suspended)
        asked = fixture.scope.pending_questions.pop(
            first.state, {"name": "T", "arguments": {"x": 1}}
        )
        assert asked is not None
        call = ToolCall("again", "use", "T", {"x": 1}, approval_answer=ApprovalAnswer(asked, yes))
        second = await fixture.dispatcher.dispatch(call, fixture.scope, caller)

    assert before == []
    assert extract_texts(second) == ["done"]
    assert ran.read_text(encoding="utf-8") == "x\n"
    assert (
        fixture.scope.pending_questions.pop(first.state, {"name": "T", "arguments": {"x": 1}})
        is None
    )


async def test_a_retried_call_is_evaluated_by_the_rules_again(tmp_path: Path) -> None:
    tool = RecordingTool("T")
    caller = ScriptedCaller(reply=AskDeferred({}))
    yes: JsonObject = {"action": "accept", "content": {"decision": "allow once"}}
    async with open_dispatcher(tmp_path, tool) as fixture:
        first = await fixture.call("T", caller)
        assert isinstance(first, Suspended)
        asked = fixture.scope.pending_questions.pop(first.state, {"name": "T", "arguments": {}})
        assert asked is not None
        fixture.apply_settings({"permissions": {"deny": ["T"]}})
        call = ToolCall("again", "use", "T", {}, approval_answer=ApprovalAnswer(asked, yes))
        second = await fixture.dispatcher.dispatch(call, fixture.scope, caller)

    assert isinstance(second, Refusal)
    assert tool.calls == []


async def test_a_person_is_asked_the_question_of_a_tool(tmp_path: Path) -> None:
    tool = RecordingTool("T", ask=ToolAsk("this cannot be undone"))
    caller = ScriptedCaller(reply=Approved())
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.call("T", caller)

    assert extract_texts(outcome) == ["done"]
    assert caller.questions[0].decision.by.reason == "this cannot be undone"


@pytest.mark.parametrize("interrupt", list(Interrupt))
async def test_a_cancellation_stops_a_tool_or_lets_it_finish_as_the_tool_declares(
    tmp_path: Path, interrupt: Interrupt
) -> None:
    effects: list[str] = []
    inside, leave = anyio.Event(), anyio.Event()

    async def work(_: JsonObject, __: CallContext) -> ToolResult:
        inside.set()
        await leave.wait()
        effects.append("whole")
        return build_text_result("done")

    async with open_dispatcher(
        tmp_path, RecordingTool("T", body=work, interrupt=interrupt)
    ) as fixture:
        fixture.apply_settings({"permissions": {"allow": ["T"]}})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fixture.call, "T")
            await inside.wait()
            tasks.cancel_scope.cancel()
            leave.set()
        recorded = fixture.read_journal()

    finished = interrupt is Interrupt.BLOCK
    assert effects == (["whole"] if finished else [])
    assert [(entry["outcome"], entry.get("reason")) for entry in recorded] == [
        ("completed", None) if finished else ("cancelled", "user_interrupted")
    ]


async def test_a_large_result_is_stored_and_readable_by_its_scope(tmp_path: Path) -> None:
    async def long(_: JsonObject, __: CallContext) -> ToolResult:
        return build_text_result("line\n" * 20_000)

    tool = RecordingTool("T", body=long, result_limit=50_000)
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings({"permissions": {"allow": ["T"]}}).call("T")

    assert isinstance(outcome, Completed)
    (replaced,) = outcome.replaced
    assert replaced.file is not None
    assert Path(replaced.file).read_text(encoding="utf-8") == "line\n" * 20_000
    assert fixture.scope.is_delivered(replaced.file)
    assert str(extract_texts(outcome)[0]).startswith(
        "<persisted-output>\nOutput too large (97.7KB)."
    )


async def test_a_failing_tool_fires_the_failure_hooks(tmp_path: Path) -> None:
    async def fail(_: JsonObject, __: CallContext) -> ToolResult:
        return build_error_result("Exit code 1")

    seen = tmp_path / "seen.json"
    tool = RecordingTool("T", body=fail)
    rules = {
        "permissions": {"allow": ["T"]},
        "hooks": hooks_for("PostToolUseFailure", f"cat > '{seen}'"),
    }
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.apply_settings(rules).call("T", x=1)

    told = json.loads(seen.read_text(encoding="utf-8"))
    assert (told["hook_event_name"], told["tool_input"], told["error"]) == (
        "PostToolUseFailure",
        {"x": 1},
        "Exit code 1",
    )
    assert told["session_id"] == fixture.scope.id
    assert told["transcript_path"] == str(fixture.journal.path)


async def test_progress_reaches_the_caller_while_the_tool_runs(tmp_path: Path) -> None:
    async def step(_: JsonObject, context: CallContext) -> ToolResult:
        await context.progress({"progress": 1, "total": 2})
        return build_text_result("done")

    caller = ScriptedCaller()
    async with open_dispatcher(tmp_path, RecordingTool("T", body=step)) as fixture:
        await fixture.apply_settings({"permissions": {"allow": ["T"]}}).call("T", caller)

    assert caller.progressed == [{"progress": 1, "total": 2}]


async def test_an_internal_error_is_raised_and_recorded_in_the_journal(tmp_path: Path) -> None:
    class Broken:
        def find_problems(self, arguments: Json) -> list[str]:
            raise AssertionError("a bug")

    tool = RecordingTool("T")
    object.__setattr__(tool, "validator", Broken())
    async with open_dispatcher(tmp_path, tool) as fixture:
        with pytest.raises(AssertionError, match="a bug"):
            await fixture.call("T")
        recorded = fixture.read_journal()

    assert [entry["outcome"] for entry in recorded] == ["protocol_error"]


async def test_the_snapshot_can_be_replaced_between_calls(tmp_path: Path) -> None:
    first, second = RecordingTool("T"), RecordingTool("T")
    async with open_dispatcher(tmp_path, first) as fixture:
        fixture.apply_settings({"permissions": {"allow": ["T"]}})
        await fixture.call("T")
        fixture.snapshot = replace(fixture.snapshot, registry=build_registry([second], ()))
        await fixture.call("T")

    assert (len(first.calls), len(second.calls)) == (1, 1)


def print_replacement(event: str, value: Json) -> str:
    """Return a hook command that replaces the result with this value."""
    output = {"hookEventName": event, "updatedToolOutput": value}
    return f"printf '%s' '{json.dumps({'hookSpecificOutput': output})}'"


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        ("short", {"content": [{"type": "text", "text": "short"}]}),
        ([{"type": "text", "text": "a"}], {"content": [{"type": "text", "text": "a"}]}),
        (
            {"content": [{"type": "text", "text": "b"}], "isError": True},
            {"content": [{"type": "text", "text": "b"}], "isError": True},
        ),
        ({"n": 1}, {"content": [{"type": "text", "text": '{"n": 1}'}]}),
        ([{"type": "text"}], {"content": [{"type": "text", "text": '[{"type": "text"}]'}]}),
    ],
)
async def test_a_hook_replaces_the_result_of_an_upstream_before_it_is_measured(
    tmp_path: Path, value: Json, wire: JsonObject
) -> None:
    async def much(_: JsonObject, __: CallContext) -> ToolResult:
        return ToolResult({"content": [], "structuredContent": {"secret": "x" * 9_000}})

    tool = RecordingTool("t", server="s", rule="mcp__s__t", body=much, result_limit=5_000)
    settings = {
        "permissions": {"allow": ["mcp__s__t"]},
        "hooks": hooks_for("PostToolUse", print_replacement("PostToolUse", value)),
    }
    async with open_dispatcher(tmp_path, tool) as fixture:
        outcome = await fixture.apply_settings(settings).call("t")

    assert isinstance(outcome, Completed)
    assert outcome.wire == wire
    assert outcome.replaced == ()


async def test_a_hook_replaces_neither_the_result_of_a_built_in_tool_nor_a_failure(
    tmp_path: Path,
) -> None:
    async def fails(_: JsonObject, __: CallContext) -> ToolResult:
        return build_error_result("oh no")

    own = RecordingTool("T")
    failing = RecordingTool("t", server="s", rule="mcp__s__t", body=fails)
    settings = {
        "permissions": {"allow": ["mcp__s__t", "T"]},
        "hooks": {
            **hooks_for("PostToolUse", print_replacement("PostToolUse", "x")),
            **hooks_for("PostToolUseFailure", print_replacement("PostToolUseFailure", "x")),
        },
    }
    async with open_dispatcher(tmp_path, own, failing) as fixture:
        fixture.apply_settings(settings)
        assert extract_texts(await fixture.call("T")) == ["done"]
        assert extract_texts(await fixture.call("t")) == ["oh no"]
