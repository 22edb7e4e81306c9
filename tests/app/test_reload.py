"""Rules, hooks and variables that change while the server runs."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_dispatch.model.errors import StartError
from mcp_dispatch.model.outcome import Refusal
from mcp_dispatch.settings.layers import locate_own_file
from tests.support.client import (
    Installation,
    RawServer,
    build_tools_call,
    extract_raw_text,
    start_raw_server,
)
from tests.support.home import Home
from tests.support.paths import ROOT


def format_denial(rule: str, file: Path) -> str:
    return f"Permission to use Bash has been denied: a deny rule forbids it ({rule} in {file}:1)."


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_a_rule_added_while_the_server_runs_applies_to_the_next_call(home: Home) -> None:
    home.write(home.user, {"permissions": {"allow": ["Bash(printf a)"]}})

    async with home.app() as running:
        before = await running.bash("printf a")
        await running.after(
            lambda: home.write(home.user, {"permissions": {"deny": ["Bash(printf:*)"]}})
        )
        after = await running.bash("printf a")

    assert before == "a"
    assert after == format_denial("Bash(printf:*)", home.user)


async def test_a_settings_file_created_after_the_start_takes_effect(home: Home) -> None:
    async with home.app() as running:
        await running.after(
            lambda: home.write(home.project, {"permissions": {"deny": ["Bash(printf:*)"]}})
        )
        denied = await running.bash("printf a")
        await running.after(
            lambda: home.write(
                locate_own_file(home.user.parent, home.root),
                {"permissions": {"allow": ["Bash(echo:*)"]}},
            )
        )
        allowed = await running.bash("echo b")

    assert denied == format_denial("Bash(printf:*)", home.project)
    assert allowed == "b"


async def test_a_file_that_becomes_invalid_keeps_its_rules_and_other_files_still_reload(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    home.write(home.user, {"permissions": {"deny": ["Bash(printf:*)"], "allow": ["Bash(echo:*)"]}})

    async with home.app() as running:
        await running.after(lambda: home.write(home.user, '{"permissions": {"deny": ['))
        still_denied = await running.bash("printf a")
        await running.after(
            lambda: home.write(home.project, {"permissions": {"deny": ["Bash(echo:*)"]}})
        )
        now_denied = await running.bash("echo a")

    assert still_denied == format_denial("Bash(printf:*)", home.user)
    assert now_denied == format_denial("Bash(echo:*)", home.project)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        f"{home.user}: not JSON: Expecting value at line 1, column 27; what it said before stays "
        "in force"
    ]


async def test_a_new_managed_file_that_is_invalid_leaves_all_settings_unchanged(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    home.write(home.user, {"permissions": {"deny": ["Bash(printf:*)"]}})
    part = home.managed / "settings.d" / "50.json"

    async with home.app() as running:
        home.write(part, "{")
        running.app.reload()
        home.user.unlink()
        running.app.reload()
        denied = await running.bash("printf a")

    assert denied == format_denial("Bash(printf:*)", home.user)
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert set(errors) == {
        f"{part}: not JSON: Expecting property name enclosed in double quotes at line 1, column 2; "
        "the settings stay as they were"
    }


async def test_an_invalid_managed_file_prevents_the_start(home: Home) -> None:
    file = home.managed / "settings.json"
    home.write(file, "[]")

    with pytest.raises(StartError) as raised:
        async with home.app():
            raise AssertionError("it started")

    assert str(raised.value) == f"{file}: expected an object at the top"


async def test_trust_and_untrust_take_effect_in_a_running_server(
    home: Home,
) -> None:
    home.write(home.project, {"permissions": {"allow": ["Bash(printf:*)"]}, "env": {"STAGE": "x"}})

    async def run_command(*arguments: str) -> None:
        command = [sys.executable, "-m", "mcp_dispatch", *arguments, str(home.root)]
        environ = {"MCP_DISPATCH_CONFIG_DIR": str(home.user.parent)}
        await anyio.run_process(command, env=environ, cwd=ROOT)

    async with home.app() as running:
        before = await running.call("Bash", {"command": "printf $STAGE"})
        async with running.reloading():
            await run_command("trust", "--yes")
        trusted = await running.bash("printf $STAGE")
        async with running.reloading():
            await run_command("untrust")
        after = await running.call("Bash", {"command": "printf $STAGE"})

    assert isinstance(before, Refusal)
    assert trusted == "x"
    assert isinstance(after, Refusal)


async def test_variables_of_the_settings_reach_commands_and_hooks_and_follow_changes(
    home: Home,
) -> None:
    def build_settings(value: str) -> Mapping[str, Any]:
        hook = {"type": "command", "command": "printf $STAGE >> hook.log"}
        return {
            "env": {"STAGE": value, "MCP_DISPATCH_X": "never"},
            "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]},
            "permissions": {"allow": ["Bash"]},
        }

    home.write(home.user, build_settings("one"))

    async with home.app() as running:
        first = await running.bash('printf "$STAGE$MCP_DISPATCH_X"')
        await running.after(lambda: home.write(home.user, build_settings("two")))
        second = await running.bash("printf $STAGE")

    assert (first, second) == ("one", "two")
    assert (home.root / "hook.log").read_text(encoding="utf-8") == "onetwo"


async def test_cve_2025_59536_nothing_of_an_untrusted_workspace_is_started(home: Home) -> None:
    hook = {"type": "command", "command": f"touch {home.folder}/ran"}
    home.write(
        home.project,
        {
            "hooks": {"PreToolUse": [{"hooks": [hook]}], "SessionStart": [{"hooks": [hook]}]},
            "mcpServers": {"evil": {"command": "touch", "args": [f"{home.folder}/ran"]}},
        },
    )
    home.write(
        home.root / ".mcp.json",
        {"mcpServers": {"evil": {"command": "touch", "args": [f"{home.folder}/ran"]}}},
    )
    home.write(home.user, {"permissions": {"allow": ["Bash"]}})

    async with home.app() as running:
        answer = await running.bash("printf a")

    assert answer == "a"
    assert not (home.folder / "ran").exists()


async def test_a_problem_is_logged_once_across_reloads(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    home.write(home.user, {"permissions": {"allow": [7]}})

    async with home.app() as running:
        await running.after(
            lambda: home.write(home.user, {"permissions": {"allow": [7], "deny": ["WebFetch"]}})
        )

    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        f"{home.user}:1: permissions.allow[0]: expected a rule as a string, got 7; it is skipped"
    ]


async def test_a_change_of_a_setting_that_is_read_only_at_the_start_is_logged(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    async with home.app() as running:
        await running.after(
            lambda: home.write(home.user, {"dispatch": {"naming": "bare", "tools": ["Read"]}})
        )
        listed = [definition["name"] for definition in await running.app.list_definitions()]

    assert listed == ["Read"]
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "dispatch.naming is read once, at the start; it has changed since, without effect"
    ]


async def test_claude_code_settings_that_are_not_read_are_logged_once(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mcp_dispatch.app.options")
    claude_file = home.folder / "claude" / "settings.json"
    home.write(claude_file, {"permissions": {"deny": ["Bash(printf:*)"]}})

    async with home.app():
        pass
    async with home.app(replace(home.options, claude_settings=True)) as running:
        denied = await running.bash("printf a")

    logged = [each.message for each in caplog.records if "--claude-settings" in each.message]
    assert logged == [f"not read without --claude-settings: {claude_file}"]
    assert denied == format_denial("Bash(printf:*)", claude_file)


async def test_a_root_of_the_client_loads_the_settings_of_that_workspace(home: Home) -> None:
    home.write(home.project, {"permissions": {"deny": ["Bash(printf:*)"]}})

    async with home.app(replace(home.options, workspace=None)) as running:
        running.app.use_roots([home.root])
        denied = await running.bash("printf a")

    assert denied == format_denial("Bash(printf:*)", home.project)


async def wait_for_list_changed(server: RawServer) -> None:
    while (await server.receive()).get("method") != "notifications/tools/list_changed":
        pass


async def list_tool_names(server: RawServer, id: str) -> list[str]:
    await server.send({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {}})
    result = (await server.answer(id))["result"]
    assert isinstance(result, dict)
    tools = result["tools"]
    assert isinstance(tools, list)
    return [str(tool["name"]) for tool in tools if isinstance(tool, dict)]


@pytest.fixture
def pipes(installed: Installation) -> Iterator[tuple[int, int]]:
    """Yield descriptors of two FIFOs: a command writes to `began` and reads from `go`."""
    ends: list[int] = []
    for name in ("began", "go"):
        os.mkfifo(installed.workspace / name)
        ends.append(os.open(installed.workspace / name, os.O_RDWR | os.O_NONBLOCK))
    yield ends[0], ends[1]
    for end in ends:
        os.close(end)


async def test_a_running_call_survives_a_reload_and_the_next_call_uses_the_new_rules(
    installed: Installation, pipes: tuple[int, int]
) -> None:
    began, go = pipes
    installed.add_rules(allow=["Bash"])
    (file,) = installed.folder.glob("settings-*.json")

    async with start_raw_server(installed) as server:
        with anyio.fail_after(30):
            await server.handshake()
            before = await list_tool_names(server, "list-1")
            await server.send(
                build_tools_call("slow", "Bash", command="echo > began; head -c 8 go")
            )
            await anyio.wait_readable(began)
            rules = {"permissions": {"deny": ["Bash(echo:*)", "Write"]}}
            file.write_text(json.dumps(rules), encoding="utf-8")
            await wait_for_list_changed(server)
            os.write(go, b"finished")
            slow = await server.answer("slow")
            await server.send(build_tools_call("next", "Bash", command="echo again"))
            denied = await server.answer("next")
            after = await list_tool_names(server, "list-2")

    assert extract_raw_text(slow) == "finished"
    assert format_denial("Bash(echo:*)", file) in extract_raw_text(denied)
    assert [name for name in before if name not in after] == ["Write"]
