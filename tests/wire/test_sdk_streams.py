"""The streams of an upstream: invalid lines are skipped and counted, broken pipes end them."""

import anyio
import pytest
from anyio import fail_after, wait_all_tasks_blocked
from mcp.shared.message import SessionMessage

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.codec import Unencodable
from mcp_dispatch.wire.jsonrpc import from_session_message, to_session_message
from mcp_dispatch.wire.lines import BoundedLineReader
from mcp_dispatch.wire.sdk import JSONRPCDispatcher, MCPError, TransportContext
from mcp_dispatch.wire.sdk_streams import MessageReader, MessageWriter


def _create_lines(*chunks: bytes, limit: int = 1000) -> BoundedLineReader:
    waiting = iter(chunks)

    async def receive() -> bytes:
        return next(waiting, b"")

    return BoundedLineReader(receive, limit)


async def _read_messages(reader: MessageReader) -> list[JsonObject]:
    return [from_session_message(item) async for item in reader if isinstance(item, SessionMessage)]


def _build_message(**members: Json) -> JsonObject:
    return {"jsonrpc": "2.0", **members}


async def test_banners_and_garbage_between_messages_are_counted_and_skipped() -> None:
    heard: list[tuple[str, bytes]] = []
    stream = b"\n".join(
        [
            b"Server listening...",
            b'{"jsonrpc":"2.0","id":1,"result":{}}',
            b"\xff\xfe",
            b'{"level":"info"}',
            b"x" * 2000,
            b'{"jsonrpc":"2.0","id":{},"result":{}}',
            b'{"jsonrpc":"2.0","method":"notifications/x"}',
        ]
    )
    reader = MessageReader(_create_lines(stream), lambda kind, sample: heard.append((kind, sample)))

    messages = await _read_messages(reader)

    assert messages == [_build_message(id=1, result={}), _build_message(method="notifications/x")]
    assert heard == [
        ("undecodable", b"Server listening..."),
        ("undecodable", b"\xff\xfe"),
        ("envelope", b'{"level":"info"}'),
        ("overlong", b"x" * 200),
        ("envelope", b'{"jsonrpc":"2.0","id":{},"result":{}}'),
    ]
    assert reader.invalid_lines == {"undecodable": 2, "envelope": 2, "overlong": 1}


async def test_a_broken_response_becomes_an_error_for_the_request_that_waits() -> None:
    heard: list[str] = []
    line = b'{"jsonrpc":"2.0","id":3,"result":null}\n'
    reader = MessageReader(_create_lines(line), lambda kind, sample: heard.append(kind))

    messages = await _read_messages(reader)

    text = "Invalid Request: result must be an object"
    assert messages == [_build_message(id=3, error={"code": -32600, "message": text})]
    assert heard == ["envelope"]


async def test_a_broken_pipe_is_the_end_of_the_messages() -> None:
    async def receive() -> bytes:
        raise anyio.BrokenResourceError

    reader = MessageReader(BoundedLineReader(receive, 10), lambda kind, sample: None)

    assert await _read_messages(reader) == []


async def test_a_closed_reader_and_a_closed_writer_raise_closed_resource_error() -> None:
    async def send(_: bytes) -> None:
        raise AssertionError("nothing may be sent")

    reader, writer = MessageReader(_create_lines(), lambda kind, sample: None), MessageWriter(send)
    await reader.aclose()
    await writer.aclose()

    with pytest.raises(anyio.ClosedResourceError):
        await reader.receive()
    with pytest.raises(anyio.ClosedResourceError):
        await writer.send(to_session_message(_build_message(method="n")))


async def test_messages_are_written_one_at_a_time_in_order() -> None:
    written: list[bytes] = []
    at_first: list[bytes] = []
    go_on = anyio.Event()

    async def send(line: bytes) -> None:
        written.append(line)
        await go_on.wait()

    writer = MessageWriter(send)
    with fail_after(5):
        async with anyio.create_task_group() as tasks:
            for id in (1, 2, 3):
                tasks.start_soon(writer.send, to_session_message(_build_message(id=id, method="m")))
            await wait_all_tasks_blocked()
            at_first += written
            go_on.set()

    assert at_first == [b'{"jsonrpc":"2.0","id":1,"method":"m"}\n']
    assert written == [b'{"jsonrpc":"2.0","id":%d,"method":"m"}\n' % id for id in (1, 2, 3)]


async def test_a_value_without_a_json_form_is_not_sent() -> None:
    written: list[bytes] = []

    async def send(line: bytes) -> None:
        written.append(line)

    writer = MessageWriter(send)

    with pytest.raises(Unencodable):
        await writer.send(to_session_message(_build_message(method="m", params={"v": "\ud800"})))
    assert written == []


async def test_a_write_to_a_dead_upstream_fails_the_request_with_connection_closed() -> None:
    async def send(_: bytes) -> None:
        raise anyio.BrokenResourceError

    async def receive() -> bytes:
        await anyio.sleep_forever()
        raise AssertionError

    async def ignore(*_: object) -> dict[str, object]:
        return {}

    reader = MessageReader(BoundedLineReader(receive, 10), lambda kind, sample: None)
    dispatcher = JSONRPCDispatcher[TransportContext](reader, MessageWriter(send))
    with fail_after(5):
        async with anyio.create_task_group() as tasks:
            await tasks.start(dispatcher.run, ignore, ignore)
            with pytest.raises(MCPError, match=r"^Connection closed$"):
                await dispatcher.send_raw_request("tools/list", None)
            tasks.cancel_scope.cancel()
