"""Upstream servers from settings files, and how they follow changes of the files."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from mcp_dispatch.app.app import App, open_app
from mcp_dispatch.app.listener import AppListener
from mcp_dispatch.app.options import AppOptions
from mcp_dispatch.cli import app as command
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.model.calls import Completed, Outcome, ToolCall
from mcp_dispatch.model.json import JsonObject
from tests.support.stand_ins import ScriptedCaller
from tests.support.upstreams.support import RAW, is_running, list_starts, wait_for_message

ALLOWED = {
    "permissions": {"allow": ["mcp__raw", "mcp__other", "mcp__plain", "mcp__named"]},
    "dispatch": {"toolSearch": {"mode": "never"}},
}


class Home:
    """A config directory, a workspace, and the application that uses them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "workspace"
        self.root.mkdir()
        self.config = folder / "config"
        self.servers = self.config / "mcp.json"
        self.options = AppOptions(
            workspace=self.root,
            managed_dir=folder / "managed",
            environ={
                "MCP_DISPATCH_CONFIG_DIR": str(self.config),
                "PATH": os.environ["PATH"],
                "SECRET": "s3cret",
            },
        )
        self.write(self.config / "settings.json", ALLOWED)

    def locate_log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def build_entry(self, name: str, *options: str, **more: Any) -> dict[str, Any]:
        args = ["-S", "-E", RAW, "--log", str(self.locate_log(name)), *options]
        return {"command": sys.executable, "args": args, **more}

    def write(self, path: Path, content: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name("temporary")
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(path)

    def write_servers(self, path: Path, **servers: Any) -> None:
        self.write(path, {"mcpServers": servers})

    @asynccontextmanager
    async def app(self) -> AsyncGenerator["Running", None]:
        state = StateDirectory.open(self.folder / "state")
        listener = ReloadListener()
        async with open_app(self.options, state, listener) as app:
            yield Running(app, listener)


class ReloadListener(AppListener):
    """Signals the next reload."""

    def __init__(self) -> None:
        self.reloaded = anyio.Event()

    def on_reloaded(self) -> None:
        self.reloaded.set()


class Running:
    def __init__(self, app: App, listener: ReloadListener) -> None:
        self.app = app
        self._listener = listener

    async def list_servers(self) -> list[str]:
        """Return the servers that have an `echo` tool."""
        with anyio.fail_after(30):
            names = [str(each["name"]) for each in await self.app.list_definitions()]
        return [name.removesuffix("__echo") for name in names if name.endswith("__echo")]

    async def apply_change(self, change: Callable[[], None]) -> None:
        """Make a change and wait until the settings are reloaded."""
        self._listener.reloaded = anyio.Event()
        with anyio.fail_after(30):
            change()
            await self._listener.reloaded.wait()

    async def call(self, name: str, **arguments: Any) -> Outcome:
        call = ToolCall("1", "1", name, arguments)
        with anyio.fail_after(30):
            await self.app.wait_for_tool(name)
            return await self.app.dispatcher.dispatch(call, self.app.open_scope(), ScriptedCaller())
        raise AssertionError("the deadline passed")


def extract_structured(outcome: Outcome) -> JsonObject:
    assert isinstance(outcome, Completed), outcome
    content = outcome.wire["structuredContent"]
    assert isinstance(content, dict)
    return content


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_the_servers_of_the_user_and_of_a_trusted_workspace_run(home: Home) -> None:
    home.write_servers(home.servers, mine=home.build_entry("mine"))
    home.write_servers(home.root / ".mcp.json", theirs=home.build_entry("theirs"))

    async with home.app() as running:
        untrusted = await running.list_servers()
    environ = dict(home.options.environ)
    trusted = CliRunner().invoke(command, ["trust", str(home.root), "--yes"], env=environ)
    async with home.app() as running:
        after = await running.list_servers()

    assert trusted.exit_code == 0, trusted.output
    assert untrusted == ["mine"]
    assert len(list_starts(home.locate_log("theirs"))) == 1
    assert after == ["mine", "theirs"]


async def test_a_file_change_restarts_only_the_servers_whose_entries_changed(
    home: Home,
) -> None:
    same, gone = home.build_entry("same"), home.build_entry("gone")
    home.write_servers(home.servers, same=same, gone=gone, other=home.build_entry("other"))

    async with home.app() as running:
        before = await running.list_servers()
        await running.apply_change(
            lambda: home.write_servers(
                home.servers,
                new=home.build_entry("new"),
                same=same,
                other=home.build_entry("other", "--page", "5"),
            )
        )
        after = await running.list_servers()
        (ended,) = list_starts(home.locate_log("gone"))
        with anyio.fail_after(30):
            while is_running(ended):
                await anyio.lowlevel.checkpoint()

    assert (before, after) == (["gone", "other", "same"], ["new", "other", "same"])
    counts = {
        name: len(list_starts(home.locate_log(name))) for name in ("same", "gone", "other", "new")
    }
    assert counts == {"same": 1, "gone": 1, "other": 2, "new": 1}


async def test_a_running_call_finishes_on_the_server_process_where_it_started(
    home: Home, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    home.write_servers(home.servers, raw=home.build_entry("raw"))
    outcomes: list[Outcome] = []

    async with home.app() as running, anyio.create_task_group() as tasks:
        await running.list_servers()

        async def call(name: str, **arguments: str) -> None:
            outcomes.append(await running.call(name, **arguments))

        tasks.start_soon(partial(call, "raw__stall", fifo=str(fifo)))
        await wait_for_message(home.locate_log("raw"), "tools/call")
        await running.apply_change(
            lambda: home.write_servers(home.servers, raw=home.build_entry("second"))
        )
        await call("raw__echo")
        await anyio.to_thread.run_sync(fifo.write_bytes, b"go")

    second, first = outcomes
    assert isinstance(first, Completed)
    assert first.wire == {"content": [{"type": "text", "text": "went on"}]}
    assert isinstance(second, Completed)
    assert len(list_starts(home.locate_log("second"))) == 1


async def test_a_file_of_mcp_config_is_watched_and_keeps_its_servers_when_it_becomes_invalid(
    home: Home,
) -> None:
    file = home.folder / "servers.json"
    home.write_servers(file, one=home.build_entry("one"))
    home.options = AppOptions(
        workspace=home.root,
        mcp_config=(file,),
        managed_dir=home.options.managed_dir,
        environ=home.options.environ,
    )

    async with home.app() as running:
        await running.apply_change(lambda: home.write_servers(file, two=home.build_entry("two")))
        changed = await running.list_servers()
        await running.apply_change(lambda: home.write(file, {"mcpServers": 7}))
        broken = await running.list_servers()

    assert (changed, broken) == (["two"], ["two"])


async def test_variables_of_the_settings_reach_servers_that_inherit_them(home: Home) -> None:
    settings = {**ALLOWED, "env": {"STAGE": "test", "TZ": "UTC"}}
    home.write(home.config / "settings.json", settings)
    home.write_servers(
        home.servers,
        plain=home.build_entry("plain"),
        named=home.build_entry("named", inheritEnv=["STAGE"], env={"ALSO": "${STAGE}"}),
    )

    async with home.app() as running:
        plain = extract_structured(await running.call("plain__environment"))
        named = extract_structured(await running.call("named__environment"))
        await running.apply_change(
            lambda: home.write(
                home.config / "settings.json", {**settings, "env": {"STAGE": "live", "TZ": "UTC"}}
            )
        )
        later = extract_structured(await running.call("named__environment"))

    assert (plain.get("STAGE"), plain.get("TZ")) == (None, "UTC")
    assert (named["STAGE"], named["ALSO"]) == ("test", "test")
    assert (later["STAGE"], later["ALSO"]) == ("live", "live")
    assert "s3cret" not in str(plain) + str(named)
    assert len(list_starts(home.locate_log("plain"))) == 1


async def test_calls_to_a_server_with_server_sharing_run_one_at_a_time(
    home: Home, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    home.write_servers(
        home.servers, raw=home.build_entry("raw", sharing="server"), other=home.build_entry("other")
    )
    calls: list[Any] = []

    async with home.app() as running, anyio.create_task_group() as tasks:
        await running.list_servers()
        tasks.start_soon(lambda: running.call("raw__stall", fifo=str(fifo)))
        await wait_for_message(home.locate_log("raw"), "tools/call")
        tasks.start_soon(lambda: running.call("raw__echo"))
        await running.call("other__echo")
        calls += await wait_for_message(home.locate_log("raw"), "tools/call")
        await anyio.to_thread.run_sync(fifo.write_bytes, b"go")

    assert [params["name"] for params in calls] == ["stall"]
