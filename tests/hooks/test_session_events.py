"""Tests of hooks in a whole session: its start and end, background hooks and the journal."""

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


def build_start_settings(*commands: str) -> dict[str, Any]:
    return {**ALLOWED, "hooks": hooks_for("SessionStart", *commands)}


def build_context_command(text: str) -> str:
    output = {"hookEventName": "SessionStart", "additionalContext": text}
    return f"printf '%s' '{json.dumps({'hookSpecificOutput': output})}'"


def create_pipes(folder: Path) -> tuple[Path, Path]:
    """Create the pipe that a hook writes when it starts and the pipe that it waits for."""
    for name in ("started", "gate"):
        os.mkfifo(folder / name)
    return folder / "started", folder / "gate"


async def test_the_context_of_session_start_hooks_is_in_the_first_result_only(
    tmp_path: Path,
) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        fixture.apply_settings(
            build_start_settings(
                "echo plain words", build_context_command("from JSON"), "echo lost; exit 1"
            )
        )
        first = await fixture.call("T")
        second = await fixture.call("T")

    assert extract_texts(first) == ["done", f"{FRAME} plain words", f"{FRAME} from JSON"]
    assert extract_texts(second) == ["done"]


async def test_session_start_hooks_run_once_and_concurrent_calls_wait_for_them(
    tmp_path: Path,
) -> None:
    started, gate = create_pipes(tmp_path)
    command = "echo >> count; echo > started; cat gate"
    tool = RecordingTool("T", shared=True)
    async with open_dispatcher(tmp_path, tool) as fixture:
        fixture.apply_settings(build_start_settings(command))
        async with anyio.create_task_group() as calls:
            with anyio.fail_after(30):
                for number in range(3):
                    calls.start_soon(lambda n=number: fixture.call("T", n=n))
                await to_thread.run_sync(started.read_text)
                await wait_all_tasks_blocked()
                assert tool.calls == []
                await to_thread.run_sync(gate.write_text, "")

    assert tool.calls == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert (tmp_path / "count").read_text() == "\n"


async def test_a_cancelled_first_call_does_not_cancel_the_session_start_hooks(
    tmp_path: Path,
) -> None:
    started, gate = create_pipes(tmp_path)
    command = "echo > started; cat gate; echo here"
    outcomes: list[Outcome] = []
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        fixture.apply_settings(build_start_settings(command))
        with anyio.fail_after(30):
            async with anyio.create_task_group() as calls:
                calls.start_soon(fixture.call, "T")
                await to_thread.run_sync(started.read_text)
                calls.cancel_scope.cancel()
            await to_thread.run_sync(gate.write_text, "")
            outcomes.append(await fixture.call("T"))

    assert extract_texts(outcomes[0]) == ["done", f"{FRAME} here"]


@pytest.mark.parametrize("command", ["exit 1", "exit 2", "kill -9 $$", "./missing", "echo '{'"])
async def test_a_session_starts_if_its_start_hook_fails(tmp_path: Path, command: str) -> None:
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        assert extract_texts(
            await fixture.apply_settings(build_start_settings(command)).call("T")
        ) == ["done"]


async def test_session_hooks_receive_the_source_and_the_reason(tmp_path: Path) -> None:
    hooks = {
        **hooks_for("SessionStart", "cat > started"),
        "SessionEnd": [
            {"matcher": "other", "hooks": [{"type": "command", "command": "cat > ended"}]},
            {"matcher": "logout", "hooks": [{"type": "command", "command": "touch loggedout"}]},
        ],
    }
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        await fixture.apply_settings({**ALLOWED, "hooks": hooks}).call("T")
        await end_session(fixture.dispatcher.services, fixture.scope)

    started, ended = (json.loads((tmp_path / name).read_text()) for name in ("started", "ended"))
    assert (started["hook_event_name"], started["source"]) == ("SessionStart", "startup")
    assert (ended["hook_event_name"], ended["reason"]) == ("SessionEnd", "other")
    assert started["session_id"] == ended["session_id"] == fixture.scope.id
    assert not (tmp_path / "loggedout").exists()


async def test_session_end_hooks_do_not_run_for_a_session_that_never_started(
    tmp_path: Path,
) -> None:
    async with open_dispatcher(tmp_path) as fixture:
        fixture.apply_settings({"hooks": hooks_for("SessionEnd", "touch ended")})
        await end_session(fixture.dispatcher.services, fixture.scope)

    assert not (tmp_path / "ended").exists()


@pytest.mark.parametrize(
    ("options", "minimum", "maximum"),
    [({}, 1.4, 8), ({"timeout": 0.2}, 0.1, 8)],
    ids=["by default", "with a shorter timeout"],
)
async def test_a_session_end_hook_that_hangs_is_stopped_at_its_timeout(
    tmp_path: Path, options: dict[str, Any], minimum: float, maximum: float
) -> None:
    hangs = {"type": "command", "command": "sleep 1000", **options}
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        fixture.apply_settings({**ALLOWED, "hooks": {"SessionEnd": [{"hooks": [hangs]}]}})
        await fixture.call("T")
        start = anyio.current_time()
        with anyio.fail_after(30):
            await end_session(fixture.dispatcher.services, fixture.scope)
        duration = anyio.current_time() - start

    assert minimum <= duration <= maximum


def build_post_settings(command: str, **options: Any) -> dict[str, Any]:
    hook = {"type": "command", "command": command, **options}
    return {**ALLOWED, "hooks": {"PostToolUse": [{"hooks": [hook]}]}}


async def test_the_context_of_a_background_hook_is_added_to_a_later_result(tmp_path: Path) -> None:
    _, gate = create_pipes(tmp_path)
    output = {
        "decision": "block",
        "continue": False,
        "hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "late"},
    }
    command = f"cat gate; printf '%s' '{json.dumps(output)}'"
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        fixture.apply_settings(build_post_settings(command, **{"async": True}))
        with anyio.fail_after(30):
            first = await fixture.call("T")
            await to_thread.run_sync(gate.write_text, "")
            fixture.apply_settings(ALLOWED)
            while len(extract_texts(second := await fixture.call("T"))) == 1:
                await checkpoint()

    assert extract_texts(first) == ["done"]
    assert extract_texts(second) == ["done", "PostToolUse:T hook additional context: late"]


async def test_status_messages_are_sent_as_strictly_increasing_progress(tmp_path: Path) -> None:
    caller = ScriptedCaller()

    async def report_progress(_: Any, context: Any) -> Any:
        await context.progress({"progress": 0, "message": "begin"})
        await context.progress({"progress": 5})
        return await RecordingTool("x").run({}, context)

    tool = RecordingTool("T", body=report_progress)
    hooks = {
        "PreToolUse": [
            {"hooks": [{"type": "command", "command": "true", "statusMessage": "look"}]}
        ],
        "PostToolUse": [
            {"hooks": [{"type": "command", "command": "true", "statusMessage": "tidy"}]}
        ],
    }
    async with open_dispatcher(tmp_path, tool) as fixture:
        await fixture.apply_settings({**ALLOWED, "hooks": hooks}).call("T", caller)

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


async def test_a_shell_command_is_parsed_once_while_the_hooks_run(tmp_path: Path) -> None:
    started, gate = create_pipes(tmp_path)
    hooks = hooks_for("PreToolUse", "echo > started; cat gate")
    tool = RecordingTool("Bash")
    async with open_dispatcher(tmp_path, tool) as fixture:
        fixture.apply_settings({"permissions": {"allow": ["Bash(echo:*)"]}, "hooks": hooks})
        parse_command.cache_clear()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as calls:
                calls.start_soon(lambda: fixture.call("Bash", command="echo a && echo b"))
                await to_thread.run_sync(started.read_text)
                while not parse_command.cache_info().currsize:
                    await checkpoint()
                assert tool.calls == []
                await to_thread.run_sync(gate.write_text, "")

    assert tool.calls == [{"command": "echo a && echo b"}]
    assert parse_command.cache_info().misses == 1


async def test_the_journal_records_the_results_of_hooks(tmp_path: Path) -> None:
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
    decides: dict[str, Any] = {"type": "command", "command": f"printf '%s' '{json.dumps(output)}'"}
    fails: dict[str, Any] = {"type": "command", "command": "echo oh >&2; exit 1"}
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        fixture.apply_settings({"hooks": {"PreToolUse": [{"hooks": [decides, fails, hangs]}]}})
        await fixture.call("T", ScriptedCaller(Approved()))
        entries = [entry for entry in fixture.read_journal() if "event" in entry]

    by_event = {str(entry["event"]): entry["details"] for entry in entries}
    assert {str(entry["hook"]) for entry in entries} == {"PreToolUse:T"}
    assert {str(entry["call"]) for entry in entries} == {"call"}
    assert sorted(by_event) == [
        "hook_additional_context",
        "hook_cancelled",
        "hook_error_during_execution",
        "hook_permission_decision",
        "hook_stopped_continuation",
        "stop_hook_summary",
    ]
    assert "ghp_" not in json.dumps(entries)
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
    started, _ = create_pipes(tmp_path)
    async with open_dispatcher(tmp_path, RecordingTool("T")) as fixture:
        fixture.apply_settings(
            {**ALLOWED, "hooks": hooks_for("PreToolUse", "echo > started; sleep 1000")}
        )
        with anyio.fail_after(30):
            async with anyio.create_task_group() as calls:
                calls.start_soon(fixture.call, "T")
                await to_thread.run_sync(started.read_text)
                calls.cancel_scope.cancel()
        details = [entry["details"] for entry in fixture.read_journal() if "event" in entry]

        assert (
            kill_tree.find_processes(set(), kill_tree.build_run_marker(fixture.children.run_id))
            == set()
        )

    assert [isinstance(detail, dict) and detail["reason"] for detail in details] == [
        "the call was cancelled"
    ]
