"""The contract with the SDK: fails when an interface that `wire/sdk.py` wraps has changed."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio import fail_after
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.lines import BoundedLineReader
from mcp_dispatch.wire.sdk import (
    CallNext,
    Context,
    DispatchServer,
    JSONRPCDispatcher,
    Result,
    TransportContext,
    complete_result,
    get_connection_outbound,
    get_connection_state,
    is_modern,
    is_open,
)
from mcp_dispatch.wire.sdk_streams import MessageReader, MessageWriter
from tests.support.toy_client import ToyClient, serve_toy_server
from tests.support.toy_stdio_server import TOOL, Toys

ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
_META = "io.modelcontextprotocol/"


def _open_streams(client: ToyClient) -> tuple[MessageReader, MessageWriter]:
    def on_noise(kind: str, sample: bytes) -> None:
        raise AssertionError((kind, sample))

    lines = BoundedLineReader(client.reader.receive, 1_000_000)
    return MessageReader(lines, on_noise), MessageWriter(client.writer.send)


async def _accept(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"allow": True})


@asynccontextmanager
async def _connect(mode: str) -> AsyncGenerator[tuple[Client, Toys]]:
    """Connect a real SDK client to the toy server over two pipes."""
    async with serve_toy_server() as (pipes, toys, _):

        @asynccontextmanager
        async def transport() -> AsyncGenerator[tuple[MessageReader, MessageWriter]]:
            yield _open_streams(pipes)
            pipes.stop_writing()

        async with Client(transport(), mode=mode, elicitation_callback=_accept) as client:
            yield client, toys


def _read_text(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


@ERAS
async def test_a_real_client_lists_and_calls_through_our_streams(mode: str) -> None:
    with fail_after(15):
        async with _connect(mode) as (client, _):
            tools = (await client.list_tools()).tools
            result = await client.call_tool("echo", {"n": 10**30, "text": "ü\n"})
            version = client.protocol_version

    assert [tool.name for tool in tools] == ["echo"]
    assert version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
    assert result.structured_content == {"n": 10**30, "text": "ü\n"}


@ERAS
async def test_progress_reaches_the_client_while_the_tool_runs(mode: str) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    with fail_after(15):
        async with _connect(mode) as (client, _):
            await client.list_tools()
            await client.call_tool("progress", {}, progress_callback=on_progress)

    assert heard[:2] == [(1.0, 3.0, "step 1"), (2.0, 3.0, "step 2")]


@ERAS
async def test_cancelling_a_call_stops_the_tool_and_leaves_the_connection_usable(
    mode: str,
) -> None:
    with fail_after(15):
        async with _connect(mode) as (client, toys):
            await client.list_tools()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "wait")
                await toys.started.wait()
                tasks.cancel_scope.cancel()
            await toys.stopped.wait()
            result = await client.call_tool("echo", {})

    assert _read_text(result) == "echo"


@ERAS
async def test_a_question_to_the_user_is_answered(mode: str) -> None:
    with fail_after(15):
        async with _connect(mode) as (client, _):
            await client.list_tools()
            result = await client.call_tool("ask", {})

    assert _read_text(result) == "answered accept"


@ERAS
async def test_the_client_s_capabilities_are_known(mode: str) -> None:
    with fail_after(15):
        async with _connect(mode) as (client, _):
            await client.list_tools()
            result = await client.call_tool("capabilities", {})

    assert result.structured_content == {"elicitation": {"form": {}, "url": {}}}


@ERAS
async def test_a_protocol_error_arrives_with_its_data(mode: str) -> None:
    with fail_after(15):
        async with _connect(mode) as (client, _):
            await client.list_tools()
            with pytest.raises(MCPError) as failure:
                await client.call_tool("fail", {})

    error = failure.value
    assert (error.code, error.message) == (-32042, "vendor error")
    assert error.data == {"why": [None, 10**30]}


def _build_modern_meta(**params: Json) -> JsonObject:
    envelope: JsonObject = {
        f"{_META}protocolVersion": "2026-07-28",
        f"{_META}clientCapabilities": {"elicitation": {}},
    }
    return {**params, "_meta": envelope}


@asynccontextmanager
async def _open_raw() -> AsyncGenerator[Callable[..., Any]]:
    """A raw peer of the toy server: `send_raw_request` of the SDK's dispatcher."""

    async def ignore(*_: object) -> dict[str, Any]:
        return {}

    async with serve_toy_server() as (pipes, _, _):
        dispatcher = JSONRPCDispatcher[TransportContext](*_open_streams(pipes))
        async with anyio.create_task_group() as tasks:
            await tasks.start(dispatcher.run, ignore, ignore)
            yield dispatcher.send_raw_request
            pipes.stop_writing()
            tasks.cancel_scope.cancel()


async def test_unknown_fields_and_big_integers_cross_unchanged_in_the_legacy_era() -> None:
    with fail_after(15):
        async with _open_raw() as request:
            listed = await request("tools/list", None)
            called = await request("tools/call", {"name": "echo", "arguments": {"n": 10**30}})

    assert listed == {"tools": [TOOL], "ttlMs": 0, "cacheScope": "private"}
    assert called == {
        "content": [{"type": "text", "text": "echo"}],
        "structuredContent": {"n": 10**30},
        "vendorTop": {"n": None},
    }


async def test_unknown_fields_cross_unchanged_in_the_modern_era_with_its_envelope() -> None:
    with fail_after(15):
        async with _open_raw() as request:
            listed = await request("tools/list", _build_modern_meta())

    stamp = {f"{_META}serverInfo": {"name": "toy", "version": "1"}}
    assert listed == {
        "resultType": "complete",
        "tools": [TOOL],
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": stamp,
    }


async def test_request_state_is_sealed_and_refused_when_it_was_tampered_with() -> None:
    answers: JsonObject = {"permission": {"action": "accept", "content": {}}}

    with fail_after(15):
        async with _open_raw() as request:
            asked = await request("tools/call", _build_modern_meta(name="ask", arguments={}))
            state = asked["requestState"]
            again = _build_modern_meta(
                name="ask", arguments={}, inputResponses=answers, requestState=state
            )
            done = await request("tools/call", again)
            forged = {**again, "requestState": "asked once"}
            with pytest.raises(MCPError) as refusal:
                await request("tools/call", forged)

    assert "asked once" not in state
    assert done["content"] == [{"type": "text", "text": "answered accept"}]
    assert (refusal.value.code, refusal.value.message) == (
        -32602,
        "Invalid or expired requestState",
    )


async def test_list_changed_is_advertised_to_both_eras() -> None:
    answers = ("tools/list", "prompts/list", "resources/list")
    listen = ListenHandler(InMemorySubscriptionBus())
    server = DispatchServer("s", version="1", middleware=[], methods=answers, listen=listen)

    legacy = server.create_initialization_options().capabilities
    modern = server.get_capabilities(protocol_version="2026-07-28")

    for capabilities in (legacy, modern):
        assert capabilities.tools is not None
        assert capabilities.prompts is not None
        assert capabilities.resources is not None
        assert capabilities.tools.list_changed is True
        assert capabilities.prompts.list_changed is True
        assert capabilities.resources.list_changed is True
    assert server.middleware == []


async def test_a_connection_is_not_open_before_the_handshake() -> None:
    seen: list[bool] = []

    async def answer(ctx: Context, call_next: CallNext) -> Result:
        seen.append(is_open(ctx))
        return await call_next(ctx)

    server = DispatchServer("s", version="1", middleware=[answer])
    with fail_after(15):
        async with Client(server, mode="legacy"):
            pass

    assert seen[0] is False
    assert seen[-1] is True


async def test_a_method_that_no_middleware_answers_is_not_found() -> None:
    server = DispatchServer("s", version="1", middleware=[])

    with fail_after(15):
        async with Client(server) as client:
            with pytest.raises(MCPError) as failure:
                await client.list_tools()

    assert failure.value.code == -32601


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_state_and_notifications_outlive_a_request_only_in_the_legacy_era(mode: str) -> None:
    states: list[int] = []
    heard: list[str] = []

    async def answer(ctx: Context, call_next: CallNext) -> Result:
        if ctx.method != "tools/list":
            return await call_next(ctx)
        states.append(get_connection_state(ctx).setdefault("seen", len(states)))
        await get_connection_outbound(ctx).notify("notifications/tools/list_changed", None)
        assert is_modern(ctx) == (mode != "legacy")
        assert is_open(ctx)
        return complete_result(server, ctx, {"tools": [], "ttlMs": 0, "cacheScope": "private"})

    async def on_message(message: object) -> None:
        heard.append(type(message).__name__)

    server = DispatchServer("s", version="1", middleware=[answer])
    with fail_after(15):
        async with Client(server, mode=mode, message_handler=on_message) as client:
            await client.list_tools()
            await client.list_tools()
    legacy = mode == "legacy"

    assert states == ([0, 0] if legacy else [0, 1])
    assert ("ToolListChangedNotification" in heard) == legacy
