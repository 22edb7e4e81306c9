"""One connection to an upstream server, with real processes."""

import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from mcp_dispatch import __version__
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.upstream.errors import ConnectionLost, HandshakeFailed
from mcp_dispatch.upstream.handshake import RELAYED_CAPABILITIES
from tests.support.upstreams.raw import VENDOR_RESULT, VENDOR_TOOL
from tests.support.upstreams.support import (
    ConnectionUnderTest,
    open_connection,
    raw_server,
    read_received,
    wait_for_message,
)

CLIENT = {"name": "mcp-dispatch", "version": __version__}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@asynccontextmanager
async def open_negotiated(
    folder: Path, *options: str, **more: Any
) -> AsyncGenerator[ConnectionUnderTest, None]:
    with anyio.fail_after(30):
        async with open_connection(folder, raw_server("raw", *options), **more) as session:
            await session.connection.negotiate(10)
            yield session


async def call(
    session: ConnectionUnderTest, tool: str, *, meta: JsonObject | None = None, **arguments: Any
) -> JsonObject | ProtocolError:
    return await session.call(tool, arguments, meta=meta or {}, progress=None, timeout=10)


async def test_the_handshake_is_the_newest_of_its_era(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async with open_negotiated(tmp_path, "--log", str(log)) as session:
        await wait_for_message(log, "notifications/initialized")

        assert session.connection.version == "2025-11-25"
    assert read_received(log)[1:] == [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": RELAYED_CAPABILITIES,
                "clientInfo": CLIENT,
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_an_older_version_is_accepted(tmp_path: Path, version: str) -> None:
    async with open_negotiated(tmp_path, "--version", version) as session:
        assert session.connection.version == version


async def test_an_unknown_version_is_refused_by_name(tmp_path: Path) -> None:
    async with open_connection(tmp_path, raw_server("raw", "--version", "1999-01-01")) as session:
        with pytest.raises(HandshakeFailed) as caught:
            await session.connection.negotiate(10)

    assert str(caught.value) == (
        "speaks protocol version '1999-01-01', which is none of "
        "2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25"
    )


@pytest.mark.parametrize("code", ["-32601", "-32022"])
async def test_a_server_without_initialize_is_used_in_the_modern_era(
    tmp_path: Path, code: str
) -> None:
    log = tmp_path / "log"
    options = ("--refuse-initialize", code, "--modern", "--log", str(log))

    async with open_negotiated(tmp_path, *options) as session:
        await session.connection.list_tools(10)
        await call(session, "echo", meta={"mine": 1}, x=1)

        assert session.connection.version == "2026-07-28"
    assert read_received(log, "server/discover") == [{"_meta": ENVELOPE}]
    assert read_received(log, "tools/list") == [{"_meta": ENVELOPE}]
    assert read_received(log, "tools/call") == [
        {"name": "echo", "arguments": {"x": 1}, "_meta": {"mine": 1, **ENVELOPE}}
    ]
    assert read_received(log, "notifications/initialized") == []


async def test_a_server_that_refuses_both_eras_fails_with_its_own_message(tmp_path: Path) -> None:
    config = raw_server("raw", "--refuse-initialize", "-32603")

    async with open_connection(tmp_path, config) as session:
        with pytest.raises(HandshakeFailed) as caught:
            await session.connection.negotiate(10)

    assert str(caught.value) == "refused 'initialize': initialize is not for me (-32603)"


async def test_a_server_that_never_answers_ends_the_handshake_at_its_timeout(
    tmp_path: Path,
) -> None:
    async with open_connection(tmp_path, raw_server("raw", "--mute")) as session:
        with pytest.raises(TimeoutError):
            await session.connection.negotiate(0.2)


async def test_definitions_arrive_as_they_were_sent(tmp_path: Path) -> None:
    async with open_negotiated(tmp_path) as session:
        listing = await session.connection.list_tools(10)

    assert listing.problem is None
    assert [tool for tool in listing.entries if tool["name"] == "vendor"] == [VENDOR_TOOL]


async def test_all_pages_of_a_list_are_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with open_negotiated(tmp_path) as session:
        whole = await session.connection.list_tools(10)

    async with open_negotiated(tmp_path, "--page", "3", "--log", str(log)) as session:
        paged = await session.connection.list_tools(10)

    assert paged == whole
    assert read_received(log, "tools/list")[:3] == [None, {"cursor": "3"}, {"cursor": "6"}]


async def test_a_cursor_that_comes_back_ends_the_list(tmp_path: Path) -> None:
    async with open_negotiated(tmp_path, "--loop-cursor", "--page", "2") as session:
        listing = await session.connection.list_tools(10)

    assert listing.problem == "gave the page cursor '0' twice"
    assert len(listing.entries) == 4


async def test_a_result_arrives_as_it_was_sent(tmp_path: Path) -> None:
    async with open_negotiated(tmp_path) as session:
        result = await call(session, "vendor")

    assert result == VENDOR_RESULT
    assert isinstance(result, dict)
    assert list(result) == list(VENDOR_RESULT)
    assert str(result["structuredContent"]) == str(VENDOR_RESULT["structuredContent"])


async def test_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"b": 10**30, "a": [1, 1.0, -0.0, None, True], "é": "\u2028\x00 😀"}

    async with open_negotiated(tmp_path) as session:
        result = await call(session, "echo", **arguments)

    assert isinstance(result, dict)
    assert str(result["structuredContent"]) == str(
        {
            "received": {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "tools/call",
                "params": {"name": "echo", "arguments": arguments},
            }
        }
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            {"code": -32602, "message": "no", "data": {"x": [None]}},
            ProtocolError(-32602, "no", {"x": [None]}),
        ),
        ({"code": -32000, "message": "own"}, ProtocolError(-32000, "own")),
        (
            {"code": -32000, "message": "Connection closed"},
            ProtocolError(-32000, "Connection closed"),
        ),
        ({"code": 7, "message": "", "data": 0}, ProtocolError(7, "", 0)),
    ],
)
async def test_a_protocol_error_is_returned_unchanged(
    tmp_path: Path, error: dict[str, Any], expected: ProtocolError
) -> None:
    async with open_negotiated(tmp_path) as session:
        assert await call(session, "fail", **error) == expected


@pytest.mark.parametrize("result", [None, [], "text", 1])
async def test_a_result_that_is_no_object_fails_its_call_at_once(
    tmp_path: Path, result: Any
) -> None:
    async with open_negotiated(tmp_path) as session:
        answer = await call(session, "odd_result", result=result)

    assert isinstance(answer, ProtocolError)
    assert answer.code == -32600


async def test_the_clients_meta_is_forwarded_but_for_what_belongs_to_its_hop(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    meta: JsonObject = {
        "progressToken": "theirs",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "them"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        "io.modelcontextprotocol/logLevel": "debug",
        "vendor/key": {"deep": None},
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }

    async with open_negotiated(tmp_path, "--log", str(log)) as session:
        await call(session, "echo", meta=meta)

    kept = {key: meta[key] for key in ("vendor/key", "traceparent")}
    assert read_received(log, "tools/call") == [{"name": "echo", "arguments": {}, "_meta": kept}]


async def test_progress_arrives_raw_in_order_and_before_the_result(tmp_path: Path) -> None:
    seen: list[JsonObject] = []

    async def slowly(progress: JsonObject) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(progress)

    async with open_negotiated(tmp_path) as session:
        await session.call("progress", {"steps": 500}, meta={}, progress=slowly, timeout=10)

        expected = [{"progress": n, "total": 500, "x-unit": None} for n in range(1, 501)]
        assert str(seen) == str(expected)


async def test_progress_reaches_the_call_it_belongs_to(tmp_path: Path) -> None:
    seen: dict[int, list[Any]] = {3: [], 4: []}

    async with open_negotiated(tmp_path) as session, anyio.create_task_group() as tasks:

        async def run(steps: int) -> None:
            async def note(progress: JsonObject) -> None:
                seen[steps].append(progress["total"])

            arguments: JsonObject = {"steps": steps}
            await session.call("progress", arguments, meta={}, progress=note, timeout=10)

        tasks.start_soon(run, 3)
        tasks.start_soon(run, 4)

    assert seen == {3: [3] * 3, 4: [4] * 4}


async def test_no_progress_is_requested_unless_the_caller_wants_it(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async with open_negotiated(tmp_path, "--log", str(log)) as session:
        await call(session, "progress")

    assert read_received(log, "tools/call") == [{"name": "progress", "arguments": {}}]


async def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async with open_negotiated(tmp_path, "--log", str(log)) as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, session, "mute")
            await wait_for_message(log, "tools/call")
            tasks.cancel_scope.cancel()
        notices = await wait_for_message(log, "notifications/cancelled")

    assert notices == [{"requestId": 2, "reason": "caller cancelled"}]


async def test_a_call_that_times_out_is_cancelled_and_the_connection_stays_open(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"

    async with open_negotiated(tmp_path, "--log", str(log)) as session:
        with pytest.raises(TimeoutError):
            await session.call("mute", {}, meta={}, progress=None, timeout=0.2)
        await wait_for_message(log, "notifications/cancelled")

        assert await call(session, "vendor") == VENDOR_RESULT


async def test_an_answer_after_the_timeout_is_dropped(tmp_path: Path) -> None:
    log, fifo = tmp_path / "log", tmp_path / "fifo"
    os.mkfifo(fifo)

    async with open_negotiated(tmp_path, "--log", str(log)) as session:
        arguments: JsonObject = {"fifo": str(fifo)}
        with pytest.raises(TimeoutError):
            await session.call("stall", arguments, meta={}, progress=None, timeout=0.2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.to_thread.run_sync, fifo.write_bytes, b"")
            # Its answer comes after the late one, on the same pipe.
            assert await call(session, "vendor") == VENDOR_RESULT

    assert session.invalid_lines == []


async def test_progress_without_end_does_not_extend_the_time_of_a_call(tmp_path: Path) -> None:
    seen: list[JsonObject] = []

    async def note(progress: JsonObject) -> None:
        seen.append(progress)

    async with open_negotiated(tmp_path) as session:
        with pytest.raises(TimeoutError):
            await session.call("progress_forever", {}, meta={}, progress=note, timeout=0.3)

    assert seen[:2] == [{"progress": 0}, {"progress": 1}]


async def test_a_call_cancelled_while_its_line_is_written_leaves_no_partial_line(
    tmp_path: Path,
) -> None:
    log, fifo = tmp_path / "log", tmp_path / "fifo"
    os.mkfifo(fifo)

    async with open_negotiated(tmp_path, "--log", str(log)) as session:
        async with anyio.create_task_group() as stalled, anyio.create_task_group() as tasks:
            stalled.start_soon(partial(call, session, "stall", fifo=str(fifo)))
            await wait_for_message(log, "tools/call")
            tasks.start_soon(partial(call, session, "mute", padding="x" * 1_000_000))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(fifo.write_bytes, b"")

        assert await call(session, "vendor") == VENDOR_RESULT
    calls = [sent["name"] for sent in read_received(log, "tools/call")]
    assert calls == ["stall", "mute", "vendor"]


async def test_garbage_between_messages_is_skipped_and_counted(tmp_path: Path) -> None:
    async with open_negotiated(tmp_path) as session:
        result = await call(session, "garbage")
        again = await call(session, "vendor")

    assert result == {"content": [{"type": "text", "text": "after the garbage"}]}
    assert again == VENDOR_RESULT
    assert session.invalid_lines == [
        "undecodable",
        "undecodable",
        "envelope",
        "undecodable",
        "envelope",
        "undecodable",
    ]


async def test_a_server_request_without_a_client_is_refused_and_a_ping_is_answered(
    tmp_path: Path,
) -> None:
    async with open_negotiated(tmp_path) as session:
        result = await call(session, "ask")

    lonely = (
        "mcp-dispatch: no request is in flight that 'sampling/createMessage' could belong to; ask "
        "only while working on one"
    )
    answers: list[JsonObject] = [
        {"jsonrpc": "2.0", "id": "ask-ping", "result": {}},
        {
            "jsonrpc": "2.0",
            "id": "ask-sampling/createMessage",
            "error": {"code": -32000, "message": lonely},
        },
        {
            "jsonrpc": "2.0",
            "id": "ask-roots/list",
            "result": {"roots": []},
        },
    ]
    assert result == {"content": [], "structuredContent": {"answers": answers}}


async def test_a_changed_list_is_announced(tmp_path: Path) -> None:
    async with open_negotiated(tmp_path) as session:
        await call(session, "grow")

        assert session.changes == 1


async def test_a_call_to_a_server_that_ends_raises_connection_lost(tmp_path: Path) -> None:
    async with open_negotiated(tmp_path) as session:
        with pytest.raises(ConnectionLost):
            await call(session, "crash")
        assert session.connection.closed.is_set()

        with pytest.raises(ConnectionLost):
            await call(session, "vendor")


async def test_a_line_over_the_limit_ends_the_connection_with_a_reason(tmp_path: Path) -> None:
    async with open_negotiated(tmp_path, line_limit=500_000) as session:
        with pytest.raises(ConnectionLost):
            await call(session, "big", megabytes=1)

    assert await session.transport.wait_for_end_reason(0) == "sent a line of more than 500000 bytes"


async def test_a_server_that_sends_requests_and_never_reads_is_disconnected(tmp_path: Path) -> None:
    async with open_negotiated(tmp_path) as session:
        with pytest.raises(ConnectionLost):
            await call(session, "nag")

    assert (
        await session.transport.wait_for_end_reason(0)
        == "keeps asking and does not read the answers"
    )


async def test_the_time_for_a_large_result_is_linear_in_its_size(tmp_path: Path) -> None:
    async with open_negotiated(tmp_path) as session:
        await call(session, "big", megabytes=1)
        seconds: dict[int, float] = {}
        for megabytes in (8, 32):
            started = time.process_time()
            result = await call(session, "big", megabytes=megabytes)
            seconds[megabytes] = time.process_time() - started
            assert result == {"content": [{"type": "text", "text": "x" * (megabytes * 1_000_000)}]}

    # Four times the size; a quadratic reader takes sixteen times as long.
    assert seconds[32] < 10 * max(seconds[8], 0.1)
