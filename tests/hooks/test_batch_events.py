"""Tests of PostToolBatch hooks, which run once for all calls of a batch."""

import json
from pathlib import Path
from typing import Any

import anyio
from anyio import wait_all_tasks_blocked

from mcp_dispatch.model.calls import Completed, Outcome, ToolCall
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import CallContext, ToolResult, build_text_result
from mcp_dispatch.pipeline.batch import BatchSettings
from mcp_dispatch.pipeline.scope import Scope
from tests.support.dispatcher import (
    DispatcherFixture,
    extract_texts,
    hooks_for,
    open_dispatcher,
)
from tests.support.stand_ins import RecordingTool, ScriptedCaller

WINDOW = 0.5
FRAME = "PostToolBatch hook additional context: "


def build_settings(command: str) -> dict[str, Any]:
    return {
        "permissions": {"allow": ["T", "U"], "deny": ["V"]},
        "hooks": hooks_for("PostToolBatch", command),
    }


def build_print_command(**output: Json) -> str:
    return f"printf '%s' '{json.dumps(output)}'"


CONTEXT = build_print_command(
    hookSpecificOutput={"hookEventName": "PostToolBatch", "additionalContext": "all done"}
)


def build_scope(fixture: DispatcherFixture, window: float = WINDOW) -> Scope:
    return Scope(fixture.folder, limit=10, batch_settings=BatchSettings(window_seconds=window))


async def dispatch_concurrently(
    fixture: DispatcherFixture, scope: Scope, *names: str
) -> list[Outcome]:
    """Dispatch one call per name concurrently and return the outcomes as they complete."""
    outcomes: list[Outcome] = []

    async def dispatch_one(name: str) -> None:
        call = ToolCall(name, f"use-{name}", name, {"x": name})
        outcomes.append(await fixture.dispatcher.dispatch(call, scope, ScriptedCaller()))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(dispatch_one, name)
    return outcomes


async def test_a_batch_hook_runs_once_with_all_calls_of_the_batch(tmp_path: Path) -> None:
    tools = [RecordingTool(name, shared=True) for name in "TUV"]
    async with open_dispatcher(tmp_path, *tools) as fixture:
        fixture.apply_settings(build_settings(f"cat > input.json; echo >> count; {CONTEXT}"))
        await dispatch_concurrently(fixture, build_scope(fixture), "T", "U", "V")

    document = json.loads((tmp_path / "input.json").read_text("utf-8"))
    assert document["hook_event_name"] == "PostToolBatch"
    calls = {call["tool_name"]: call for call in document["tool_calls"]}
    assert calls["T"] == {
        "tool_name": "T",
        "tool_input": {"x": "T"},
        "tool_use_id": "use-T",
        "tool_response": "done",
    }
    assert calls["V"]["tool_response"].startswith("<tool_use_error>Permission to use V has been")
    assert sorted(calls) == ["T", "U", "V"]
    assert (tmp_path / "count").read_text() == "\n"


async def test_context_of_a_batch_hook_is_added_to_the_last_result(tmp_path: Path) -> None:
    tools = [RecordingTool(name, shared=True) for name in "TU"]
    async with open_dispatcher(tmp_path, *tools) as fixture:
        fixture.apply_settings(build_settings(CONTEXT))
        outcomes = await dispatch_concurrently(fixture, build_scope(fixture), "T", "U")

    assert [extract_texts(outcome) for outcome in outcomes] == [
        ["done"],
        ["done", f"{FRAME}all done"],
    ]


async def test_a_block_of_a_batch_hook_asks_the_client_to_stop(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        fixture.apply_settings(build_settings("echo enough >&2; exit 2"))
        (outcome,) = await dispatch_concurrently(fixture, build_scope(fixture, 0.01), "T")

    assert isinstance(outcome, Completed)
    assert outcome.wire["_meta"] == {"mcp-dispatch/stopped": "enough"}
    assert extract_texts(outcome) == ["done", "A hook asks to stop here: enough"]


async def test_context_that_a_refusal_cannot_carry_is_added_to_the_next_result(
    tmp_path: Path,
) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T"), RecordingTool("V")) as fixture:
        scope = build_scope(fixture, 0.01)
        fixture.apply_settings(build_settings(CONTEXT))
        await dispatch_concurrently(fixture, scope, "V")
        fixture.apply_settings({"permissions": {"allow": ["T"]}})
        (outcome,) = await dispatch_concurrently(fixture, scope, "T")

    assert extract_texts(outcome) == ["done", f"{FRAME}all done"]


async def test_a_result_is_sent_once_another_call_has_joined_the_batch(tmp_path: Path) -> None:
    gate = anyio.Event()

    async def wait_for_gate(_: JsonObject, __: CallContext) -> ToolResult:
        await gate.wait()
        return build_text_result("late")

    tools = [RecordingTool("T", shared=True), RecordingTool("U", shared=True, body=wait_for_gate)]
    async with open_dispatcher(tmp_path, *tools) as fixture:
        fixture.apply_settings(build_settings(CONTEXT))
        scope = build_scope(fixture, 60)
        first: list[Outcome] = []
        second: list[Outcome] = []
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:

                async def dispatch_one(name: str, outcomes: list[Outcome]) -> None:
                    outcomes.extend(await dispatch_concurrently(fixture, scope, name))

                tasks.start_soon(dispatch_one, "T", first)
                await wait_all_tasks_blocked()
                assert first == []
                tasks.start_soon(dispatch_one, "U", second)
                await wait_all_tasks_blocked()
                assert len(first) == 1
                gate.set()
                await wait_all_tasks_blocked()
                assert second == []
                tasks.cancel_scope.cancel()

    assert extract_texts(first[0]) == ["done"]


async def test_a_call_does_not_wait_for_a_batch_without_batch_hooks(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        fixture.apply_settings({"permissions": {"allow": ["T"]}})
        with anyio.fail_after(30):
            (outcome,) = await dispatch_concurrently(fixture, build_scope(fixture, 3600), "T")

    assert extract_texts(outcome) == ["done"]
