"""Hooks that are told of all calls of a batch at once."""

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


def settings(command: str) -> dict[str, Any]:
    return {
        "permissions": {"allow": ["T", "U"], "deny": ["V"]},
        "hooks": hooks_for("PostToolBatch", command),
    }


def says(**output: Json) -> str:
    return f"printf '%s' '{json.dumps(output)}'"


CONTEXT = says(
    hookSpecificOutput={"hookEventName": "PostToolBatch", "additionalContext": "all done"}
)


def slowly(line: DispatcherFixture, window: float = WINDOW) -> Scope:
    return Scope(line.folder, limit=10, batch_settings=BatchSettings(window_seconds=window))


async def together(line: DispatcherFixture, scope: Scope, *names: str) -> list[Outcome]:
    """Calls that arrive at once; their outcomes in the order in which they were answered."""
    outcomes: list[Outcome] = []

    async def one(name: str) -> None:
        call = ToolCall(name, f"use-{name}", name, {"x": name})
        outcomes.append(await line.dispatcher.dispatch(call, scope, ScriptedCaller()))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(one, name)
    return outcomes


async def test_hooks_are_told_of_all_calls_of_a_batch_once(tmp_path: Path) -> None:
    tools = [RecordingTool(name, shared=True) for name in "TUV"]
    async with open_dispatcher(tmp_path, *tools) as line:
        line.apply_settings(settings(f"cat > told; echo >> count; {CONTEXT}"))
        await together(line, slowly(line), "T", "U", "V")

    told = json.loads((tmp_path / "told").read_text("utf-8"))
    assert told["hook_event_name"] == "PostToolBatch"
    calls = {call["tool_name"]: call for call in told["tool_calls"]}
    assert calls["T"] == {
        "tool_name": "T",
        "tool_input": {"x": "T"},
        "tool_use_id": "use-T",
        "tool_response": "done",
    }
    assert calls["V"]["tool_response"].startswith("<tool_use_error>Permission to use V has been")
    assert sorted(calls) == ["T", "U", "V"]
    assert (tmp_path / "count").read_text() == "\n"


async def test_what_they_say_goes_with_the_last_answer(tmp_path: Path) -> None:
    tools = [RecordingTool(name, shared=True) for name in "TU"]
    async with open_dispatcher(tmp_path, *tools) as line:
        line.apply_settings(settings(CONTEXT))
        outcomes = await together(line, slowly(line), "T", "U")

    assert [extract_texts(outcome) for outcome in outcomes] == [
        ["done"],
        ["done", f"{FRAME}all done"],
    ]


async def test_a_block_asks_to_stop(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        line.apply_settings(settings("echo enough >&2; exit 2"))
        (outcome,) = await together(line, slowly(line, 0.01), "T")

    assert isinstance(outcome, Completed)
    assert outcome.wire["_meta"] == {"mcp-dispatch/stopped": "enough"}
    assert extract_texts(outcome) == ["done", "A hook asks to stop here: enough"]


async def test_what_cannot_be_said_with_a_refusal_is_said_with_the_next_result(
    tmp_path: Path,
) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T"), RecordingTool("V")) as line:
        scope = slowly(line, 0.01)
        line.apply_settings(settings(CONTEXT))
        await together(line, scope, "V")
        line.apply_settings({"permissions": {"allow": ["T"]}})
        (outcome,) = await together(line, scope, "T")

    assert extract_texts(outcome) == ["done", f"{FRAME}all done"]


async def test_an_answer_is_not_held_once_another_call_has_joined(tmp_path: Path) -> None:
    gate = anyio.Event()

    async def waits(_: JsonObject, __: CallContext) -> ToolResult:
        await gate.wait()
        return build_text_result("late")

    tools = [RecordingTool("T", shared=True), RecordingTool("U", shared=True, body=waits)]
    async with open_dispatcher(tmp_path, *tools) as line:
        line.apply_settings(settings(CONTEXT))
        scope = slowly(line, 60)
        first: list[Outcome] = []
        second: list[Outcome] = []
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:

                async def one(name: str, outcomes: list[Outcome]) -> None:
                    outcomes.extend(await together(line, scope, name))

                tasks.start_soon(one, "T", first)
                await wait_all_tasks_blocked()
                assert first == []
                tasks.start_soon(one, "U", second)
                await wait_all_tasks_blocked()
                assert len(first) == 1
                gate.set()
                await wait_all_tasks_blocked()
                assert second == []
                tasks.cancel_scope.cancel()

    assert extract_texts(first[0]) == ["done"]


async def test_without_such_hooks_nothing_waits(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        line.apply_settings({"permissions": {"allow": ["T"]}})
        with anyio.fail_after(30):
            (outcome,) = await together(line, slowly(line, 3600), "T")

    assert extract_texts(outcome) == ["done"]
