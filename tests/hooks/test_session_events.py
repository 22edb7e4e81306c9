"""Hooks around a session: told of its first call and of its end."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread, wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from mcp_dispatch.model.approval import Approved
from mcp_dispatch.model.calls import Outcome
from mcp_dispatch.pipeline.hook_env import end_session
from mcp_dispatch.policy.commands.expand import parse_command
from mcp_dispatch.processes import kill_tree
from tests.support.dispatcher import extract_texts, hooks_for, open_dispatcher
from tests.support.stand_ins import RecordingTool, ScriptedCaller

ALLOWED: dict[str, Any] = {"permissions": {"allow": ["T"]}}
FRAME = "SessionStart:startup hook additional context:"


def start(*commands: str) -> dict[str, Any]:
    return {**ALLOWED, "hooks": hooks_for("SessionStart", *commands)}


def context(text: str) -> str:
    output = {"hookEventName": "SessionStart", "additionalContext": text}
    return f"printf '%s' '{json.dumps({'hookSpecificOutput': output})}'"


def pipes(folder: Path) -> tuple[Path, Path]:
    """For a hook to say that it has begun, and to wait until it may go on."""
    for name in ("begun", "gate"):
        os.mkfifo(folder / name)
    return folder / "begun", folder / "gate"


async def test_what_a_session_begins_with_is_in_its_first_result_only(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        line.apply_settings(start("echo plain words", context("from JSON"), "echo lost; exit 1"))
        first = await line.call("T")
        second = await line.call("T")

    assert extract_texts(first) == ["done", f"{FRAME} plain words", f"{FRAME} from JSON"]
    assert extract_texts(second) == ["done"]


async def test_a_session_begins_once_and_its_calls_wait_for_it(tmp_path: Path) -> None:
    begun, gate = pipes(tmp_path)
    waits = "echo >> count; echo > begun; cat gate"
    tool = RecordingTool("T", shared=True)
    async with open_dispatcher(tmp_path, tool) as line:
        line.apply_settings(start(waits))
        async with anyio.create_task_group() as calls:
            with anyio.fail_after(30):
                for number in range(3):
                    calls.start_soon(lambda n=number: line.call("T", n=n))
                await to_thread.run_sync(begun.read_text)
                await wait_all_tasks_blocked()
                assert tool.calls == []
                await to_thread.run_sync(gate.write_text, "")

    assert tool.calls == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert (tmp_path / "count").read_text() == "\n"


async def test_a_cancelled_first_call_does_not_take_the_sessions_begin_with_it(
    tmp_path: Path,
) -> None:
    begun, gate = pipes(tmp_path)
    waits = "echo > begun; cat gate; echo here"
    outcomes: list[Outcome] = []
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        line.apply_settings(start(waits))
        with anyio.fail_after(30):
            async with anyio.create_task_group() as calls:
                calls.start_soon(line.call, "T")
                await to_thread.run_sync(begun.read_text)
                calls.cancel_scope.cancel()
            await to_thread.run_sync(gate.write_text, "")
            outcomes.append(await line.call("T"))

    assert extract_texts(outcomes[0]) == ["done", f"{FRAME} here"]


@pytest.mark.parametrize("command", ["exit 1", "exit 2", "kill -9 $$", "./missing", "echo '{'"])
async def test_a_session_begins_though_its_hook_fails(tmp_path: Path, command: str) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        assert extract_texts(await line.apply_settings(start(command)).call("T")) == ["done"]


async def test_hooks_are_told_why_a_session_begins_and_ends(tmp_path: Path) -> None:
    hooks = {
        **hooks_for("SessionStart", "cat > begun"),
        "SessionEnd": [
            {"matcher": "other", "hooks": [{"type": "command", "command": "cat > ended"}]},
            {"matcher": "logout", "hooks": [{"type": "command", "command": "touch loggedout"}]},
        ],
    }
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        await line.apply_settings({**ALLOWED, "hooks": hooks}).call("T")
        await end_session(line.dispatcher.services, line.scope)

    begun, ended = (json.loads((tmp_path / name).read_text()) for name in ("begun", "ended"))
    assert (begun["hook_event_name"], begun["source"]) == ("SessionStart", "startup")
    assert (ended["hook_event_name"], ended["reason"]) == ("SessionEnd", "other")
    assert begun["session_id"] == ended["session_id"] == line.scope.id
    assert not (tmp_path / "loggedout").exists()


async def test_nobody_is_told_of_the_end_of_a_session_that_never_began(tmp_path: Path) -> None:
    async with open_dispatcher(tmp_path) as line:
        line.apply_settings({"hooks": hooks_for("SessionEnd", "touch ended")})
        await end_session(line.dispatcher.services, line.scope)

    assert not (tmp_path / "ended").exists()


@pytest.mark.parametrize(
    ("options", "least", "most"),
    [({}, 1.4, 8), ({"timeout": 0.2}, 0.1, 8)],
    ids=["by default", "with a shorter time of its own"],
)
async def test_the_end_of_a_session_is_not_held_up(
    tmp_path: Path, options: dict[str, Any], least: float, most: float
) -> None:
    hangs = {"type": "command", "command": "sleep 1000", **options}
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        line.apply_settings({**ALLOWED, "hooks": {"SessionEnd": [{"hooks": [hangs]}]}})
        await line.call("T")
        began = anyio.current_time()
        with anyio.fail_after(30):
            await end_session(line.dispatcher.services, line.scope)
        took = anyio.current_time() - began

    assert least <= took <= most


def post(command: str, **options: Any) -> dict[str, Any]:
    hook = {"type": "command", "command": command, **options}
    return {**ALLOWED, "hooks": {"PostToolUse": [{"hooks": [hook]}]}}


async def test_what_a_background_hook_says_comes_with_the_next_result(tmp_path: Path) -> None:
    _, gate = pipes(tmp_path)
    output = {
        "decision": "block",
        "continue": False,
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "late"},
    }
    waits = f"cat gate; printf '%s' '{json.dumps(output)}'"
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        line.apply_settings(post(waits, **{"async": True}))
        with anyio.fail_after(30):
            first = await line.call("T")
            await to_thread.run_sync(gate.write_text, "")
            line.apply_settings(ALLOWED)
            while len(extract_texts(second := await line.call("T"))) == 1:
                await checkpoint()

    assert extract_texts(first) == ["done"]
    assert extract_texts(second) == ["done", "PostToolUse:T hook additional context: late"]


async def test_a_status_message_is_told_as_progress_that_only_rises(tmp_path: Path) -> None:
    caller = ScriptedCaller()

    async def steps(_: Any, context: Any) -> Any:
        await context.progress({"progress": 0, "message": "begin"})
        await context.progress({"progress": 5})
        return await RecordingTool("x").run({}, context)

    tool = RecordingTool("T", body=steps)
    hooks = {
        "PreToolUse": [
            {"hooks": [{"type": "command", "command": "true", "statusMessage": "look"}]}
        ],
        "PostToolUse": [
            {"hooks": [{"type": "command", "command": "true", "statusMessage": "tidy"}]}
        ],
    }
    async with open_dispatcher(tmp_path, tool) as line:
        await line.apply_settings({**ALLOWED, "hooks": hooks}).call("T", caller)

    numbers = [params["progress"] for params in caller.progressed]
    assert [params.get("message") for params in caller.progressed] == [
        "look",
        "begin",
        None,
        "tidy",
    ]
    assert numbers[2] == 5
    assert all(isinstance(number, int | float) for number in numbers)
    assert numbers == sorted(set(map(float, map(str, numbers))))


async def test_the_shell_command_is_read_while_the_hooks_run_and_only_once(tmp_path: Path) -> None:
    begun, gate = pipes(tmp_path)
    hooks = hooks_for("PreToolUse", "echo > begun; cat gate")
    tool = RecordingTool("Bash")
    async with open_dispatcher(tmp_path, tool) as line:
        line.apply_settings({"permissions": {"allow": ["Bash(echo:*)"]}, "hooks": hooks})
        parse_command.cache_clear()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as calls:
                calls.start_soon(lambda: line.call("Bash", command="echo a && echo b"))
                await to_thread.run_sync(begun.read_text)
                while not parse_command.cache_info().currsize:
                    await checkpoint()
                assert tool.calls == []
                await to_thread.run_sync(gate.write_text, "")

    assert tool.calls == [{"command": "echo a && echo b"}]
    assert parse_command.cache_info().misses == 1


async def test_the_journal_says_what_hooks_did(tmp_path: Path) -> None:
    output = {
        "continue": False,
        "stopReason": "enough",
        "systemMessage": "hello",
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "ask",
            "permissionDecisionReason": "token=ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "additionalContext": "ctx",
        },
    }
    hangs: dict[str, Any] = {"type": "command", "command": "sleep 1000", "timeout": 0.2}
    says: dict[str, Any] = {"type": "command", "command": f"printf '%s' '{json.dumps(output)}'"}
    fails: dict[str, Any] = {"type": "command", "command": "echo oh >&2; exit 1"}
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        line.apply_settings({"hooks": {"PreToolUse": [{"hooks": [says, fails, hangs]}]}})
        await line.call("T", ScriptedCaller(Approved()))
        lines = [entry for entry in line.read_journal() if "event" in entry]

    by_event = {str(entry["event"]): entry["details"] for entry in lines}
    assert {str(entry["hook"]) for entry in lines} == {"PreToolUse:T"}
    assert {str(entry["call"]) for entry in lines} == {"call"}
    assert sorted(by_event) == [
        "hook_additional_context",
        "hook_cancelled",
        "hook_error_during_execution",
        "hook_permission_decision",
        "hook_stopped_continuation",
        "stop_hook_summary",
    ]
    assert "ghp_" not in json.dumps(lines)
    summary = by_event["stop_hook_summary"]
    assert isinstance(summary, dict)
    assert summary["count"] == 3
    assert summary["prevented_continuation"] is True
    assert summary["stop_reason"] == "enough"
    assert summary["errors"] == [
        "echo oh >&2; exit 1: Failed with non-blocking status code 1: oh",
        "sleep 1000: timed out after 0.2 s",
    ]


async def test_a_hook_whose_call_is_cancelled_is_recorded_as_cancelled(tmp_path: Path) -> None:
    begun, _ = pipes(tmp_path)
    async with open_dispatcher(tmp_path, RecordingTool("T")) as line:
        line.apply_settings(
            {**ALLOWED, "hooks": hooks_for("PreToolUse", "echo > begun; sleep 1000")}
        )
        with anyio.fail_after(30):
            async with anyio.create_task_group() as calls:
                calls.start_soon(line.call, "T")
                await to_thread.run_sync(begun.read_text)
                calls.cancel_scope.cancel()
        details = [entry["details"] for entry in line.read_journal() if "event" in entry]

        assert (
            kill_tree.find_processes(set(), kill_tree.build_run_marker(line.children.run_id))
            == set()
        )

    assert [isinstance(each, dict) and each["reason"] for each in details] == [
        "the call was cancelled"
    ]
