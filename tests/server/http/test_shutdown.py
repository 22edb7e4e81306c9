"""Shutdown of the HTTP server, limits on sessions and bodies, and connections of absent clients."""

import os
import signal
import socket
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import httpx2
import pytest
from anyio import to_thread
from starlette.types import Message

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.server.http.active_requests import ActiveRequests
from mcp_dispatch.server.http.backpressure import Backpressure, IdleTimeouts
from mcp_dispatch.server.http.body_limit import BodyLimiter, BodyRejected
from tests.support.client import (
    ERAS,
    Era,
    Installation,
    build_tools_call,
    extract_raw_text,
    extract_text,
)
from tests.support.http_server_process import (
    ACCEPT,
    HttpServerProcess,
    events,
    initialize,
    is_alive,
    modern,
    open_session,
    start_http_server,
    until_gone,
)
from tests.support.paths import UPSTREAMS

WAIT_FOR_WORD = "echo $$ > started; read word < go; echo $word"


async def read_fifo(fifo: Path) -> str:
    with anyio.fail_after(15):
        return await to_thread.run_sync(fifo.read_text, abandon_on_cancel=True)


async def write_fifo(fifo: Path, word: str) -> None:
    with anyio.fail_after(15):
        await to_thread.run_sync(fifo.write_text, word, abandon_on_cancel=True)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_call_may_finish_when_the_server_is_told_to_stop(
    installed: Installation, era: Era, number: signal.Signals
) -> None:
    installed.add_rules(allow=["Bash"])
    started, go = installed.workspace / "started", installed.workspace / "go"
    os.mkfifo(started)
    os.mkfifo(go)
    answers: list[str] = []

    async with start_http_server(installed) as server:

        async def call() -> None:
            answers.append(await call_bash(server, era, WAIT_FOR_WORD))

        async with anyio.create_task_group() as calls:
            calls.start_soon(call)
            await read_fifo(started)
            server.child.send_signal(number)
            await wait_until_closed(server)
            await write_fifo(go, "finished\n")
        code = await server.end()
        last_words = await server.last_words()

    assert answers == ["finished"]
    assert (code, last_words) == (128 + number, "")


async def call_bash(server: HttpServerProcess, era: Era, command: str) -> str:
    """Return the text of the result or of the error."""
    async with server.http() as http:
        if era == "legacy":
            session = await open_session(http, server.url)
            answer = await session.post(build_tools_call(1, "Bash", command=command))
            message = events(answer)[-1]
        else:
            headers, body = modern("tools/call", name="Bash", arguments={"command": command})
            answer = await http.post(server.url, headers=headers, json=body)
            message: JsonObject = answer.json()
    error = message.get("error")
    return str(error["message"]) if isinstance(error, dict) else extract_raw_text(message)


async def wait_until_closed(server: HttpServerProcess) -> None:
    """Wait until the server accepts no more connections."""
    url = httpx2.URL(server.url)
    with anyio.fail_after(10):
        while True:
            try:
                stream = await anyio.connect_tcp(url.host, url.port or 0)
            except OSError:
                return
            await stream.aclose()


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_does_not_finish_is_cancelled_and_answered(
    installed: Installation, era: Era
) -> None:
    installed.add_rules(allow=["Bash"])
    os.mkfifo(installed.workspace / "started")
    answers: list[str] = []

    async with start_http_server(installed) as server, anyio.create_task_group() as calls:

        async def call() -> None:
            command = "echo $$ > started; sleep 613"
            answers.append(await call_bash(server, era, command))

        calls.start_soon(call)
        pid = int(await read_fifo(installed.workspace / "started"))
        before = anyio.current_time()
        server.child.terminate()
        await until_gone(pid)
        code = await server.end()
        took = anyio.current_time() - before

        # Ten seconds, and what a busy machine adds.
        assert (code, took < 15) == (128 + signal.SIGTERM, True)

    assert answers == ["the call was cancelled: the server is stopping"]
    assert [entry["outcome"] for entry in installed.read_journal()] == ["cancelled"]


async def test_a_second_signal_ends_the_server_at_once(installed: Installation) -> None:
    installed.add_rules(allow=["Bash"])
    os.mkfifo(installed.workspace / "started")

    async with start_http_server(installed) as server, anyio.create_task_group() as calls:

        async def call() -> None:
            with suppress(httpx2.HTTPError, IndexError):
                await call_bash(server, "legacy", "echo $$ > started; sleep 613")

        calls.start_soon(call)
        pid = int(await read_fifo(installed.workspace / "started"))
        server.child.terminate()
        await wait_until_closed(server)
        server.child.send_signal(signal.SIGINT)
        code = await server.end(7)

        assert code == 128 + signal.SIGTERM
        assert not is_alive(pid)


async def test_open_streams_do_not_delay_the_shutdown(installed: Installation) -> None:
    async with (
        start_http_server(installed) as server,
        server.client("2026-07-28") as newer,
        newer.listen(tools_list_changed=True),
        server.http() as http,
    ):
        session = await open_session(http, server.url)
        async with http.stream("GET", server.url, headers=session.headers) as stream:
            assert stream.status_code == 200
            server.child.terminate()
            code = await server.end(7)
            with anyio.fail_after(5):
                rest = await stream.aread()

    assert code == 128 + signal.SIGTERM
    assert rest == b""


async def test_sessions_over_the_limit_are_refused_until_one_ends(installed: Installation) -> None:
    installed.add_settings({"dispatch": {"http": {"maxSessions": 2}}})

    async with start_http_server(installed) as server, server.http() as http:
        first = await open_session(http, server.url)
        await open_session(http, server.url)
        refused = await http.post(server.url, headers=ACCEPT, json=initialize())
        assert await first.delete() == 200
        gone = await first.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        third = await open_session(http, server.url)
        headers, body = modern("tools/list")
        newer = await http.post(server.url, headers=headers, json=body)
        answer = await third.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})

    assert (refused.status_code, gone.status_code) == (503, 404)
    assert events(answer)[0]["result"] == {}
    assert newer.status_code == 200


async def test_an_idle_session_ends_with_its_background_tasks(
    installed: Installation,
) -> None:
    installed.add_settings(
        {
            "permissions": {"allow": ["Bash"]},
            "dispatch": {"http": {"sessionIdleSeconds": 2}},
        }
    )
    os.mkfifo(installed.workspace / "started")
    command = "echo $$ > started; sleep 613"

    async with start_http_server(installed) as server, server.http() as http:
        session = await open_session(http, server.url)
        await session.post(build_tools_call(1, "Bash", command=command, run_in_background=True))
        pid = int(await read_fifo(installed.workspace / "started"))
        await until_gone(pid)
        answer = await session.post({"jsonrpc": "2.0", "id": 2, "method": "ping"})

    assert answer.status_code == 404


@pytest.mark.parametrize("era", ERAS)
async def test_clients_that_do_not_read_cost_bounded_memory(
    installed: Installation, era: Era
) -> None:
    installed.add_settings({"dispatch": {"http": {"maxBodyBytes": 4_000_000}}})
    installed.add_rules(allow=["mcp__raw"])
    upstream = str(UPSTREAMS / "raw.py")
    installed.add_upstream("raw", sys.executable, upstream)
    text = "x" * 1_000_000

    async with start_http_server(installed) as server:
        before = server.peak_kilobytes()
        requests = [await build_echo_request(server, era, number, text) for number in range(120)]
        sockets = [await send_without_reading(server, request) for request in requests]
        async with server.client("2026-07-28") as client:
            listed = await client.list_tools()
        peak = server.peak_kilobytes()
        for each in sockets:
            each.close()
        with anyio.fail_after(60):
            async with server.client(era) as client:
                served = await client.call_tool("raw__echo", {"text": "small"})

    assert listed.tools
    assert not served.is_error, extract_text(served)
    # A call holds its megabyte some four times over: without a bound, 120 calls would hold 480 MB.
    assert peak - before < 240_000, f"{peak - before} kB more at the peak"


async def build_echo_request(server: HttpServerProcess, era: Era, number: int, text: str) -> bytes:
    """Return the bytes of a call whose response is as large as the request."""
    arguments: JsonObject = {"text": text}
    async with server.http() as http:
        if era == "legacy":
            session = await open_session(http, server.url)
            headers, body = session.headers, build_tools_call(number, "raw__echo", **arguments)
        else:
            headers, body = modern("tools/call", number, name="raw__echo", arguments=arguments)
        request = http.build_request("POST", server.url, headers=headers, json=body)
        content = await request.aread()
    lines = [f"{key}: {value}" for key, value in request.headers.items()]
    return "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + content


async def send_without_reading(server: HttpServerProcess, request: bytes) -> socket.socket:
    """Send the whole request on a new connection that reads nothing."""
    url = httpx2.URL(server.url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((url.host, url.port))
    await to_thread.run_sync(connection.sendall, request)
    return connection


class FakeBody:
    """A `receive` that delivers the parts of a body and then blocks for ever."""

    def __init__(self, *parts: bytes, complete: bool = True, disconnects: bool = False) -> None:
        self._events: list[Message] = [
            {"type": "http.request", "body": part, "more_body": True} for part in parts
        ]
        self._events[-1]["more_body"] = not complete
        if disconnects:
            self._events.append({"type": "http.disconnect"})

    async def receive(self) -> Message:
        if not self._events:
            await anyio.sleep_forever()
        return self._events.pop(0)


async def test_a_body_that_grows_over_the_limit_is_not_read_further() -> None:
    body = FakeBody(b"x" * 600, b"x" * 600, b"x" * 600)

    with pytest.raises(BodyRejected) as raised:
        async with BodyLimiter(1000).read_body(None, body.receive):
            raise AssertionError("unreachable")

    assert (raised.value.status, str(raised.value)) == (
        413,
        "the body of the request is over 1000 bytes",
    )


async def test_the_bytes_of_all_bodies_are_limited_until_they_are_answered() -> None:
    limiter = BodyLimiter(1000)

    async with AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(limiter.read_body(1000, FakeBody(b"x" * 1000).receive))
        with pytest.raises(BodyRejected) as raised:
            await held.enter_async_context(limiter.read_body(1, FakeBody(b"x").receive))

    async with limiter.read_body(1000, FakeBody(b"x" * 1000).receive) as body:
        assert len(body) == 1000
    text = "too many large requests at once; try again"
    assert (raised.value.status, str(raised.value)) == (503, text)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (FakeBody(b"x", complete=False), 408, "the body of the request did not arrive in time"),
        (FakeBody(b"x", complete=False, disconnects=True), 400, "the client left before the body was "
         "complete"),
    ],
)  # fmt: skip
async def test_a_body_that_does_not_arrive_in_time_is_rejected(
    body: FakeBody, status: int, message: str
) -> None:
    with pytest.raises(BodyRejected) as raised:
        async with BodyLimiter(1000, chunk_timeout=0.01).read_body(None, body.receive):
            raise AssertionError("unreachable")

    assert (raised.value.status, str(raised.value)) == (status, message)


async def test_a_request_that_the_shutdown_ends_gets_a_response() -> None:
    active_requests, sent = ActiveRequests(), list[Message]()
    inside = anyio.Event()

    async def send(message: Message) -> None:
        sent.append(message)

    async def stay() -> None:
        async with active_requests.track(is_stream=True) as request, request.guard_response(send):
            inside.set()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stay)
        await inside.wait()
        with anyio.fail_after(5):
            await active_requests.close(grace=5)

    assert [message.get("status") for message in sent] == [503, None]
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


@dataclass
class FakeConnection:
    """The members of a connection that `Backpressure` uses."""

    unread: int = 0
    busy: bool = False
    ended: anyio.Event = field(default_factory=anyio.Event)

    @property
    def transport(self) -> "FakeConnection":
        return self

    @property
    def cycle(self) -> "FakeConnection | None":
        return self if self.busy else None

    @property
    def response_complete(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.ended.set()

    def __hash__(self) -> int:
        return id(self)


class FakeServer:
    """The members of `uvicorn.Server` that `Backpressure` uses."""

    def __init__(self, *lines: FakeConnection) -> None:
        self.server_state = self
        self.connections = set(lines)


def watch_connections(backpressure: Backpressure, *lines: FakeConnection) -> None:
    backpressure.watch(cast(Any, FakeServer(*lines)))


async def test_a_call_waits_while_too_much_is_unread() -> None:
    backpressure, line = Backpressure(max_unread_bytes=1000), FakeConnection(unread=1001)
    watch_connections(backpressure, line, FakeConnection(unread=0))
    ran = anyio.Event()

    async def call() -> None:
        await backpressure.wait_for_capacity()
        ran.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        with anyio.move_on_after(0.2):
            await ran.wait()
        assert not ran.is_set()
        line.unread = 1000
        with anyio.fail_after(5):
            await ran.wait()


async def test_only_connections_of_absent_clients_are_aborted() -> None:
    backpressure = Backpressure(timeouts=IdleTimeouts(stalled=0.05, idle=1))
    stalled, silent, working = (
        FakeConnection(unread=7, busy=True),
        FakeConnection(),
        FakeConnection(busy=True),
    )
    watch_connections(backpressure, stalled, silent, working)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(backpressure.abort_idle_connections)
        with anyio.fail_after(5):
            await stalled.ended.wait()
            assert not silent.ended.is_set()
            await silent.ended.wait()
        tasks.cancel_scope.cancel()

    assert not working.ended.is_set()
