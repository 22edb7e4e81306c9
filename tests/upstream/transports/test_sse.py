"""HTTP+SSE, the transport before streamable HTTP, and servers of the SDK over both."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_dispatch.upstream.config.model import RemoteEndpoint, ServerConfig
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.lifecycle import ServerState
from mcp_dispatch.upstream.supervisor import Supervisor
from tests.support.paths import UPSTREAMS
from tests.support.upstreams.support import call_tool, run_supervised, skip_pause, wait_for_state
from tests.support.upstreams.web import ReceivedRequest, Reply, WebUpstream, run_web_upstream

SDK = str(UPSTREAMS / "sdk_http.py")
NOT_REPEATED = "The call was not repeated: check whether it took effect before you try again."


class EventUpstream(WebUpstream):
    """Answers on its one stream whatever is posted to the address it named there."""

    endpoint = "/post?key=1"

    def __init__(self) -> None:
        super().__init__(sessions=False)
        self.streams["GET"] = self._speak
        self._out: Reply | None = None
        self._ended = anyio.Event()

    async def _speak(self, reply: Reply, _: ReceivedRequest) -> None:
        self._out, self._ended = reply, anyio.Event()
        await reply.open_events()
        await reply.send_event(event="endpoint", data=self.endpoint)
        await self._ended.wait()
        await reply.close_events()

    async def send_result(
        self, reply: Reply, asked: ReceivedRequest, result: dict[str, Any], **headers: str
    ) -> None:
        assert self._out is not None
        await reply.send_response(202)
        await self._out.send_event({"jsonrpc": "2.0", "id": asked.message["id"], "result": result})

    async def _post(self, reply: Reply, asked: ReceivedRequest) -> None:
        if asked.message.get("method") == self.drops:
            self.drops = None
            await self.tool_hang_up(reply, asked)
        else:
            await super()._post(reply, asked)

    async def tool_hang_up(self, reply: Reply, asked: ReceivedRequest) -> None:
        await reply.send_response(202)
        self._ended.set()


@asynccontextmanager
async def run_chained(folder: Path) -> AsyncGenerator[tuple[EventUpstream, Supervisor], None]:
    with anyio.fail_after(60):
        async with (
            anyio.create_task_group() as tasks,
        ):
            web = EventUpstream()
            web.home = tasks
            await web.start()
            async with run_supervised(
                folder, web.build_config(kind="sse"), pause=skip_pause
            ) as server:
                await wait_for_state(server, ServerState.READY)
                yield web, server
            tasks.cancel_scope.cancel()


async def call_json(server: Supervisor, tool: str, **arguments: Any) -> Any:
    answer = await call_tool(server, tool, arguments)
    assert isinstance(answer, dict)
    return answer["content"]


async def read_failure(server: Supervisor, tool: str, **arguments: Any) -> str:
    with pytest.raises(CallFailed) as caught:
        await call_json(server, tool, **arguments)
    return str(caught.value)


async def test_messages_are_posted_to_the_named_url_and_answers_arrive_on_the_stream(
    tmp_path: Path,
) -> None:
    async with run_chained(tmp_path) as (web, server):
        assert await call_json(server, "echo", text="hello") == [{"type": "text", "text": "hello"}]

    assert [(each.verb, each.path) for each in web.asked[:2]] == [
        ("GET", "/mcp"),
        ("POST", "/post?key=1"),
    ]


async def test_the_end_of_the_stream_fails_open_calls_and_the_server_is_reconnected(
    tmp_path: Path,
) -> None:
    async with run_chained(tmp_path) as (web, server):
        message = await read_failure(server, "hang_up")
        again = await call_json(server, "echo", text="back")

        assert again == [{"type": "text", "text": "back"}]
    assert message == (
        "The server 'web' closed its event stream while it ran 'hang_up'. It is being restarted. "
        + NOT_REPEATED
    )
    assert web.list_calls() == ["hang_up", "echo"]


async def test_a_stream_that_ends_during_a_list_is_reconnected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with anyio.create_task_group() as tasks:
        web = EventUpstream()
        web.drops, web.home = "resources/list", tasks
        await web.start()
        async with run_supervised(
            tmp_path, web.build_config(kind="sse"), pause=skip_pause
        ) as server:
            await web.wait_for_request("resources/list", 2)

            assert await call_json(server, "echo", text="on") == [{"type": "text", "text": "on"}]
        tasks.cancel_scope.cancel()
    assert [record.getMessage() for record in caplog.records] == [
        "upstream web closed its event stream"
    ]


async def test_a_refused_call_does_not_affect_the_stream(tmp_path: Path) -> None:
    async with run_chained(tmp_path) as (web, server):
        message = await read_failure(server, "status", status=429)

        assert await call_json(server, "echo", text="on") == [{"type": "text", "text": "on"}]
    assert message == ("The server 'web' answered HTTP 429 (Too Many Requests). Nothing was run.")
    assert len([each for each in web.asked if each.verb == "GET"]) == 1


async def test_messages_are_not_posted_to_another_origin(tmp_path: Path) -> None:
    async with run_web_upstream() as other, anyio.create_task_group() as tasks:
        web = EventUpstream()
        web.endpoint = other.url
        web.home = tasks
        await web.start()
        config = web.build_config(kind="sse", restart=False)
        async with run_supervised(tmp_path, config, pause=skip_pause) as server:
            await wait_for_state(server, ServerState.DOWN)

            assert server.problem is not None
            assert server.problem.startswith("points to another origin, ")
        tasks.cancel_scope.cancel()
    assert other.asked == []


async def test_a_response_that_is_no_event_stream_names_the_type_to_use(tmp_path: Path) -> None:
    async def page(reply: Reply, _: ReceivedRequest) -> None:
        await reply.send_response(200, b"{}")

    async with run_web_upstream(sessions=False) as web:
        web.streams["GET"] = page
        config = web.build_config(kind="sse", restart=False)
        async with run_supervised(tmp_path, config, pause=skip_pause) as server:
            await wait_for_state(server, ServerState.DOWN)

            assert server.problem == (
                "answered with the content type 'application/json' instead of an event stream; "
                'if it speaks streamable HTTP, set "type": "http"'
            )


@pytest.mark.parametrize(("kind", "path"), [("sse", "/sse"), ("http", "/mcp")])
async def test_a_server_of_the_sdk_is_called(tmp_path: Path, kind: Any, path: str) -> None:
    command = [sys.executable, SDK, kind]
    with anyio.fail_after(60):
        async with await anyio.open_process(command, stdout=PIPE) as process:
            assert process.stdout is not None
            line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 100)
            config = ServerConfig(
                "sdk", RemoteEndpoint(kind, f"http://127.0.0.1:{int(line)}{path}")
            )
            async with run_supervised(tmp_path, config, pause=skip_pause) as server:
                await wait_for_state(server, ServerState.READY)

                content = await call_json(server, "add", a=2, b=3)
            process.kill()
    assert content == [{"type": "text", "text": "5"}]
