"""Servers from settings files, and what becomes of them when the files change."""

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
    """A person's config directory and workspace, and the application over them."""

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

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def raw(self, name: str, *options: str, **more: Any) -> dict[str, Any]:
        args = ["-S", "-E", RAW, "--log", str(self.log(name)), *options]
        return {"command": sys.executable, "args": args, **more}

    def write(self, path: Path, content: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name("beside")
        beside.write_text(json.dumps(content), encoding="utf-8")
        beside.replace(path)

    def serve(self, path: Path, **servers: Any) -> None:
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

    async def servers(self) -> list[str]:
        """The servers that offer an `echo`."""
        with anyio.fail_after(30):
            names = [str(each["name"]) for each in await self.app.list_definitions()]
        return [name.removesuffix("__echo") for name in names if name.endswith("__echo")]

    async def after(self, change: Callable[[], None]) -> None:
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


def structured(outcome: Outcome) -> JsonObject:
    assert isinstance(outcome, Completed), outcome
    content = outcome.wire["structuredContent"]
    assert isinstance(content, dict)
    return content


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_the_servers_of_the_user_and_of_a_trusted_workspace_run(home: Home) -> None:
    home.serve(home.servers, mine=home.raw("mine"))
    home.serve(home.root / ".mcp.json", theirs=home.raw("theirs"))

    async with home.app() as running:
        untrusted = await running.servers()
    environ = dict(home.options.environ)
    trusted = CliRunner().invoke(command, ["trust", str(home.root), "--yes"], env=environ)
    async with home.app() as running:
        after = await running.servers()

    assert trusted.exit_code == 0, trusted.output
    assert untrusted == ["mine"]
    assert len(list_starts(home.log("theirs"))) == 1
    assert after == ["mine", "theirs"]


async def test_a_change_of_a_file_reaches_exactly_the_servers_whose_entries_changed(
    home: Home,
) -> None:
    same, gone = home.raw("same"), home.raw("gone")
    home.serve(home.servers, same=same, gone=gone, other=home.raw("other"))

    async with home.app() as running:
        before = await running.servers()
        await running.after(
            lambda: home.serve(
                home.servers,
                new=home.raw("new"),
                same=same,
                other=home.raw("other", "--page", "5"),
            )
        )
        after = await running.servers()
        (ended,) = list_starts(home.log("gone"))
        with anyio.fail_after(30):
            while is_running(ended):
                await anyio.lowlevel.checkpoint()

    assert (before, after) == (["gone", "other", "same"], ["new", "other", "same"])
    counts = {name: len(list_starts(home.log(name))) for name in ("same", "gone", "other", "new")}
    assert counts == {"same": 1, "gone": 1, "other": 2, "new": 1}


async def test_a_call_in_flight_ends_on_the_server_it_began_on(home: Home, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    home.serve(home.servers, raw=home.raw("raw"))
    outcomes: list[Outcome] = []

    async with home.app() as running, anyio.create_task_group() as tasks:
        await running.servers()

        async def call(name: str, **arguments: str) -> None:
            outcomes.append(await running.call(name, **arguments))

        tasks.start_soon(partial(call, "raw__stall", fifo=str(fifo)))
        await wait_for_message(home.log("raw"), "tools/call")
        await running.after(lambda: home.serve(home.servers, raw=home.raw("second")))
        await call("raw__echo")
        await anyio.to_thread.run_sync(fifo.write_bytes, b"go")

    second, first = outcomes
    assert isinstance(first, Completed)
    assert first.wire == {"content": [{"type": "text", "text": "went on"}]}
    assert isinstance(second, Completed)
    assert len(list_starts(home.log("second"))) == 1


async def test_a_file_named_by_a_flag_is_watched_and_holds_as_it_was_when_it_breaks(
    home: Home,
) -> None:
    file = home.folder / "servers.json"
    home.serve(file, one=home.raw("one"))
    home.options = AppOptions(
        workspace=home.root,
        mcp_config=(file,),
        managed_dir=home.options.managed_dir,
        environ=home.options.environ,
    )

    async with home.app() as running:
        await running.after(lambda: home.serve(file, two=home.raw("two")))
        changed = await running.servers()
        await running.after(lambda: home.write(file, {"mcpServers": 7}))
        broken = await running.servers()

    assert (changed, broken) == (["two"], ["two"])


async def test_variables_of_the_settings_reach_a_server_that_may_see_them(home: Home) -> None:
    settings = {**ALLOWED, "env": {"STAGE": "test", "TZ": "UTC"}}
    home.write(home.config / "settings.json", settings)
    home.serve(
        home.servers,
        plain=home.raw("plain"),
        named=home.raw("named", inheritEnv=["STAGE"], env={"ALSO": "${STAGE}"}),
    )

    async with home.app() as running:
        plain = structured(await running.call("plain__environment"))
        named = structured(await running.call("named__environment"))
        await running.after(
            lambda: home.write(
                home.config / "settings.json", {**settings, "env": {"STAGE": "live", "TZ": "UTC"}}
            )
        )
        later = structured(await running.call("named__environment"))

    assert (plain.get("STAGE"), plain.get("TZ")) == (None, "UTC")
    assert (named["STAGE"], named["ALSO"]) == ("test", "test")
    assert (later["STAGE"], later["ALSO"]) == ("live", "live")
    assert "s3cret" not in str(plain) + str(named)
    assert len(list_starts(home.log("plain"))) == 1


async def test_calls_to_a_server_that_wants_it_run_one_at_a_time(
    home: Home, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    home.serve(home.servers, raw=home.raw("raw", sharing="server"), other=home.raw("other"))
    held: list[Any] = []

    async with home.app() as running, anyio.create_task_group() as tasks:
        await running.servers()
        tasks.start_soon(lambda: running.call("raw__stall", fifo=str(fifo)))
        await wait_for_message(home.log("raw"), "tools/call")
        tasks.start_soon(lambda: running.call("raw__echo"))
        await running.call("other__echo")
        held += await wait_for_message(home.log("raw"), "tools/call")
        await anyio.to_thread.run_sync(fifo.write_bytes, b"go")

    assert [params["name"] for params in held] == ["stall"]
