"""The tool list is available before the servers run, and does not depend on their order."""

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.app.app import App, open_app
from mcp_dispatch.app.listener import AppListener
from mcp_dispatch.app.options import AppOptions
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.model.calls import Completed, ToolCall
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.registry.names import Naming, NamingStyle, build_exposed_name
from mcp_dispatch.registry.registry import build_registry
from mcp_dispatch.upstream.config.model import ServerConfig, StdioEndpoint
from mcp_dispatch.upstream.lifecycle import ServerState, Timing
from mcp_dispatch.upstream.listener import NullListener
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import build_server_tools
from mcp_dispatch.upstream.transports.open import LaunchContext
from mcp_dispatch.wire.codec import encode
from tests.support.client import Installation, RawServer, start_raw_server
from tests.support.stand_ins import ScriptedCaller
from tests.support.upstreams.support import RAW, list_starts, read_received


def build_entry(log: Path, *options: str, **more: Any) -> dict[str, Any]:
    args = ["-S", "-E", RAW, "--log", str(log), *options]
    return {"command": sys.executable, "args": args, **more}


@asynccontextmanager
async def serve(
    folder: Path, *, offline: bool = False, listener: AppListener | None = None, **servers: Any
) -> AsyncGenerator[App, None]:
    (folder / "workspace").mkdir(exist_ok=True)
    file = folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    allow = [f"mcp__{name}" for name in servers]
    settings = folder / "settings.json"
    content = {
        "permissions": {"allow": allow},
        "dispatch": {"toolSearch": {"mode": "never"}},
    }
    settings.write_text(json.dumps(content), encoding="utf-8")
    environ = {"PATH": os.environ["PATH"], "MCP_DISPATCH_CONFIG_DIR": str(folder / "config")}
    options = AppOptions(
        workspace=folder / "workspace",
        settings=(settings,),
        mcp_config=(file,),
        managed_dir=folder / "managed",
        environ=environ,
        offline=offline,
    )
    async with open_app(options, StateDirectory.open(folder / "state"), listener) as app:
        yield app


async def list_upstream_names(app: App) -> list[str]:
    with anyio.fail_after(30):
        names = [str(each["name"]) for each in await app.list_definitions()]
    return [name for name in names if "__" in name]


async def call(app: App, name: str) -> Completed:
    with anyio.fail_after(30):
        await app.wait_for_tool(name)
        outcome = await app.dispatcher.dispatch(
            ToolCall("1", "1", name, {}), app.scope, ScriptedCaller()
        )
    assert isinstance(outcome, Completed), outcome
    return outcome


async def test_the_cached_tool_list_is_served_before_any_server_has_started(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    async with serve(tmp_path, raw=build_entry(log)) as app:
        first = await list_upstream_names(app)
    assert len(list_starts(log)) == 1

    async with serve(
        tmp_path, raw=build_entry(log), fresh=build_entry(tmp_path / "fresh", "--exit", "3")
    ) as app:
        second = await list_upstream_names(app)
        before = len(list_starts(log))
        answered = await call(app, "raw__vendor")

    assert "raw__vendor" in first
    assert second == first
    assert before == 1
    assert len(list_starts(log)) == 2
    assert answered.wire["content"]


async def test_a_server_that_is_down_keeps_its_tools_and_delays_no_list(
    tmp_path: Path,
) -> None:
    switch = tmp_path / "switch"
    entry = build_entry(tmp_path / "log", "--exit-if", str(switch))
    async with serve(tmp_path, raw=entry) as app:
        known = await list_upstream_names(app)
    switch.touch()

    async with serve(tmp_path, raw=entry, other=build_entry(tmp_path / "other")) as app:
        await list_upstream_names(app)
        await call(app, "other__vendor")
        (down, _) = app.upstreams
        with anyio.fail_after(30):
            await down.first_attempt_done.wait()
        after = await list_upstream_names(app)

    assert down.state is ServerState.DOWN
    assert [name for name in after if name.startswith("raw__")] == known


async def test_a_lazy_server_whose_tools_are_known_starts_with_its_first_call(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    async with serve(tmp_path, raw=build_entry(log, lazy=True)) as app:
        await list_upstream_names(app)
    async with serve(
        tmp_path, raw=build_entry(log, lazy=True), eager=build_entry(tmp_path / "eager")
    ) as app:
        await call(app, "eager__vendor")
        await list_upstream_names(app)
        before = len(list_starts(log))
        await call(app, "raw__vendor")

    assert (before, len(list_starts(log))) == (1, 2)


async def test_a_call_waits_for_its_own_server_only(tmp_path: Path) -> None:
    async with serve(
        tmp_path, mute=build_entry(tmp_path / "mute", "--mute"), raw=build_entry(tmp_path / "log")
    ) as app:
        with anyio.fail_after(9):
            answer = await call(app, "raw__vendor")

    assert answer.wire["content"]


async def test_a_client_with_the_cached_list_is_notified_of_the_new_one(tmp_path: Path) -> None:
    installed = Installation(tmp_path)
    log = tmp_path / "log"
    switch = tmp_path / "switch"
    command = (sys.executable, "-S", "-E", RAW, "--log", str(log), "--late-if", str(switch))
    installed.add_upstream("raw", *command)

    async def listed(server: RawServer, id: str) -> list[str]:
        await server.send({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {}})
        result = (await server.answer(id))["result"]
        assert isinstance(result, dict)
        tools = result["tools"]
        assert isinstance(tools, list)
        return [str(tool["name"]) for tool in tools if isinstance(tool, dict)]

    with anyio.fail_after(60):
        async with start_raw_server(installed) as server:
            await server.handshake()
            before = await listed(server, "1")
        switch.touch()
        async with start_raw_server(installed) as server:
            await server.handshake()
            old = await listed(server, "2")
            while (await server.receive()).get("method") != "notifications/tools/list_changed":
                pass
            new = await listed(server, "3")

    assert old == before
    assert [name for name in new if name not in old] == ["raw__late"]


class DefinitionListener(AppListener):
    """Records the names of tools whose definitions changed."""

    def __init__(self) -> None:
        self.changed: list[frozenset[str]] = []

    def on_definitions_changed(self, names: frozenset[str]) -> None:
        self.changed.append(names)


async def test_a_changed_definition_is_reported_with_its_differences(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    switch = tmp_path / "switch"
    entry = build_entry(tmp_path / "log", "--swap-if", str(switch))
    async with serve(tmp_path, raw=entry) as app:
        await list_upstream_names(app)
    switch.touch()
    listener = DefinitionListener()

    async with serve(tmp_path, listener=listener, raw=entry) as app:
        await call(app, "raw__vendor")

    assert listener.changed == [frozenset({"mcp__raw__vendor"})]
    assert (
        "the tool 'vendor' of raw is no longer what it was: annotations.readOnlyHint: true → false"
    ) in caplog.text


async def test_a_call_that_was_permitted_for_an_old_definition_is_not_sent(tmp_path: Path) -> None:
    switch, log = tmp_path / "switch", tmp_path / "log"
    entry = build_entry(log, "--swap-if", str(switch))
    async with serve(tmp_path, raw=entry) as app:
        await list_upstream_names(app)
    switch.touch()

    async with serve(tmp_path, raw=entry) as app:
        with anyio.fail_after(30):
            outcome = await app.dispatcher.dispatch(
                ToolCall("1", "1", "raw__vendor", {}), app.scope, ScriptedCaller()
            )

    assert isinstance(outcome, Completed)
    assert "has changed what 'vendor' is since this call was judged" in str(outcome.wire)
    assert read_received(log, "tools/call") == []


async def test_cached_servers_are_shown_without_starting_them(tmp_path: Path) -> None:
    switch, log = tmp_path / "switch", tmp_path / "log"
    entry = build_entry(log, "--swap-if", str(switch), "--odd-tools")
    async with serve(tmp_path, raw=entry) as app:
        await list_upstream_names(app)
    switch.touch()
    async with serve(tmp_path, raw=entry) as app:
        await app.wait_until_connected()
    before = len(list_starts(log))

    async with serve(tmp_path, offline=True, raw=entry) as app:
        _, source = app.build_overview().sources

    assert len(list_starts(log)) == before
    assert (source.server, source.state) == ("raw", "idle")
    sharing = {tool.name: tool.sharing for tool in source.tools}
    assert sharing["raw__vendor"] == sharing["raw__echo"] == "exclusive"
    assert any(note.startswith("hostile: held back: its inputSchema ") for note in source.notes)
    (changed,) = [note for note in source.notes if "changed on" in note]
    assert changed.endswith("annotations.readOnlyHint: true → false")


# -- the same tools, the same bytes


def build_idle_supervisor(name: str, tools: tuple[JsonObject, ...]) -> Supervisor:
    place = LaunchContext(ProcessGroup(), Path("/nowhere"), {}, Path("/nowhere"))
    server = Supervisor(ServerConfig(name, StdioEndpoint("c")), place, Timing(), NullListener())
    server.tools = tools
    return server


def render_listing(servers: list[Supervisor], style: NamingStyle) -> bytes:
    def expose(server: ServerConfig, tool: str) -> str:
        return build_exposed_name(server.name, tool, Naming(style))

    offered = [tool for server in servers for tool in build_server_tools(server, expose).tools]
    pool = build_registry([], offered)
    return encode({"tools": [tool.definition for tool in pool.listed]})


NAMES = st.lists(
    st.sampled_from(["log", "a.b", "a b", "a_b", "Read", "mcp__one__log", "constructor", "é"]),
    unique=True,
    max_size=6,
)


@given(st.data())
def test_the_list_has_the_same_bytes_in_any_order_of_start(data: st.DataObject) -> None:
    style = data.draw(st.sampled_from(list(NamingStyle)))
    offers: dict[str, tuple[JsonObject, ...]] = {
        name: tuple(
            {"name": each, "inputSchema": {"type": "object"}, "title": name}
            for each in data.draw(NAMES)
        )
        for name in ("one", "two", "three")
    }
    expected = render_listing(
        [build_idle_supervisor(name, tools) for name, tools in offers.items()], style
    )

    servers = [build_idle_supervisor(name, ()) for name in offers]
    for at in data.draw(st.permutations(range(3))):
        tools = offers[servers[at].name]
        servers[at].tools = tuple(data.draw(st.permutations(tools)))
        render_listing(servers, style)

    assert render_listing(servers, style) == expected
    names = [each["name"] for each in json.loads(expected)["tools"]]
    assert len({*names}) == len(names)
