"""An upstream over HTTP written by hand, so that it can fail in ways no framework would.

It runs in the loop of the test, on a real socket. `asked` holds what it was sent, in order.
"""

import gzip
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_dispatch.upstream.config.model import RemoteEndpoint, ServerConfig

Message = dict[str, Any]
Style = Literal["json", "sse"]


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One HTTP request; `message` is what a POST carried."""

    verb: str
    path: str
    headers: dict[str, str]
    message: Message = field(default_factory=lambda: {})


class Hangup(Exception):
    """Ends the connection here and now."""


class Reply:
    """Writes one answer to a connection, in whichever state that leaves it."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._writing = anyio.Lock()

    async def write_raw(self, data: bytes) -> None:
        async with self._writing:
            await self._stream.send(data)

    async def send_response(
        self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str
    ) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
        lines += [f"Content-Type: {kind}"] if body else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.write_raw("\r\n".join([*lines, "", ""]).encode() + body)

    async def send_message(self, message: Message, status: int = 200, **headers: str) -> None:
        await self.send_response(status, json.dumps(message).encode(), **headers)

    async def open_events(self, **headers: str) -> None:
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.write_raw("\r\n".join([*lines, "", ""]).encode())

    async def send_event(self, message: Message | None = None, **fields: str) -> None:
        lines = [f"{name}: {value}" for name, value in fields.items()]
        lines += [f"data: {json.dumps(message)}"] if message is not None else []
        await self.send_chunk("\n".join([*lines, "", ""]).encode())

    async def send_chunk(self, data: bytes) -> None:
        await self.write_raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def close_events(self) -> None:
        await self.write_raw(b"0\r\n\r\n")


class WebUpstream:
    def __init__(
        self, *, style: Style = "json", modern: bool = False, sessions: bool = True
    ) -> None:
        self.style = style
        self.modern = modern
        self.keeps_sessions = sessions
        self.asked: list[ReceivedRequest] = []
        self.sessions: list[str] = []
        self.port = 0
        self.streams: dict[str, Callable[[Reply, ReceivedRequest], Awaitable[None]]] = {}
        self.credentials: str | None = None
        self.tools = ["echo"]
        self.listens = False
        self.drops: str | None = None
        self.schemas: dict[str, Message] = {}
        self.news = anyio.Event()
        self.stirred = anyio.Event()
        self.home: TaskGroup | None = None
        self._tasks: TaskGroup | None = None
        self._stopped = anyio.Event()

    # -- its life

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def build_config(self, name: str = "web", **more: Any) -> ServerConfig:
        kind = more.pop("kind", "http")
        reach = {key: more.pop(key) for key in ("headers", "headers_helper") if key in more}
        return ServerConfig(name, RemoteEndpoint(kind, self.url, **reach), **more)

    async def start(self) -> None:
        """On the port that it had before, if it ran before."""
        assert self.home is not None
        listeners = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self.port)
        self.port = listeners.extra(SocketAttribute.local_port)

        async def serve() -> None:
            try:
                async with listeners, anyio.create_task_group() as self._tasks:
                    started.set()
                    await listeners.serve(self._handle_connection, self._tasks)
            finally:
                self._stopped.set()

        started, self._stopped = anyio.Event(), anyio.Event()
        self.home.start_soon(serve)
        await started.wait()

    async def stop(self) -> None:
        """All connections end at once, as when its process is killed. It remembers nothing."""
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        await self._stopped.wait()
        self.sessions.clear()

    def forget_sessions(self) -> None:
        self.sessions.clear()

    def list_calls(self) -> list[str]:
        return [
            each.message["params"]["name"]
            for each in self.asked
            if each.message.get("method") == "tools/call"
        ]

    def find_requests(self, method: str) -> list[ReceivedRequest]:
        return [each for each in self.asked if each.message.get("method") == method]

    async def wait_for_request(self, method: str, count: int = 1) -> None:
        with anyio.fail_after(30):
            while len(self.find_requests(method)) < count:
                await self.stirred.wait()

    async def wait_for_verb(self, verb: str, count: int = 1) -> None:
        with anyio.fail_after(30):
            while len([each for each in self.asked if each.verb == verb]) < count:
                await self.stirred.wait()

    # -- plumbing

    async def _handle_connection(self, stream: SocketStream) -> None:
        async with stream:
            received = BufferedByteReceiveStream(stream)
            try:
                while True:
                    await self._answer(Reply(stream), await self._read(received))
            except (
                Hangup,
                anyio.EndOfStream,
                anyio.IncompleteRead,
                anyio.BrokenResourceError,
                anyio.ClosedResourceError,
            ):
                return

    async def _read(self, stream: BufferedByteReceiveStream) -> ReceivedRequest:
        head = (await stream.receive_until(b"\r\n\r\n", 100_000)).decode("latin-1")
        first, *lines = head.split("\r\n")
        verb, path, _ = first.split(" ")
        pairs = (line.split(": ", 1) for line in lines)
        headers = {name.lower(): value for name, value in pairs}
        body = await stream.receive_exactly(int(headers.get("content-length", 0)))
        asked = ReceivedRequest(verb, path, headers, json.loads(body) if body else {})
        self.asked.append(asked)
        stirred, self.stirred = self.stirred, anyio.Event()
        stirred.set()
        return asked

    async def _answer(self, reply: Reply, asked: ReceivedRequest) -> None:
        if self.credentials and asked.headers.get("authorization") != self.credentials:
            await reply.send_response(401)
        elif asked.verb == "POST" and asked.message.get("method") == "initialize":
            await self._initialize(reply, asked)
        elif self._is_stranger(asked):
            await reply.send_message(
                {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session?"}},
                404,
            )
        elif asked.verb in self.streams:
            await self.streams[asked.verb](reply, asked)
        elif asked.verb == "POST":
            await self._post(reply, asked)
        else:
            await reply.send_response(200 if asked.verb == "DELETE" else 405)

    def _is_stranger(self, asked: ReceivedRequest) -> bool:
        wanted = self.keeps_sessions and not self.modern
        return wanted and asked.headers.get("mcp-session-id") not in self.sessions

    async def _initialize(self, reply: Reply, asked: ReceivedRequest) -> None:
        id = asked.message["id"]
        if self.modern:
            error = {"code": -32022, "message": "Unsupported protocol version"}
            await reply.send_message({"jsonrpc": "2.0", "id": id, "error": error}, 400)
            return
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}},
            "serverInfo": {"name": "web", "version": "1"},
        }
        headers: dict[str, str] = {}
        if self.keeps_sessions:
            self.sessions.append(f"session-{len(self.find_requests('initialize'))}")
            headers["Mcp_Session_Id"] = self.sessions[-1]
        await self.send_result(reply, asked, result, **headers)

    async def _post(self, reply: Reply, asked: ReceivedRequest) -> None:
        message = asked.message
        method = message.get("method")
        if message.get("id") == "nag":
            await anyio.sleep_forever()
        elif "id" not in message or method is None:
            await reply.send_response(202)
        elif method == "server/discover":
            versions: Message = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            await self.send_result(reply, asked, {"resultType": "complete", **versions})
        elif method == "subscriptions/listen" and self.listens:
            await reply.open_events()
            await reply.send_event(
                {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"}
            )
            await anyio.sleep_forever()
        elif method == self.drops:
            raise Hangup
        elif method in ("resources/subscribe", "resources/templates/list", "resources/list"):
            key = "resourceTemplates" if "templates" in method else "resources"
            await self.send_result(reply, asked, {} if "subscribe" in method else {key: []})
        elif method == "tools/list":
            tools = [
                {
                    "name": name,
                    "description": name,
                    "inputSchema": self.schemas.get(name, {"type": "object"}),
                }
                for name in self.tools
            ]
            await self.send_result(reply, asked, {"tools": tools})
        elif method == "tools/call":
            name = message["params"]["name"]
            tool: Callable[..., Awaitable[None]] = getattr(self, f"tool_{name}")
            await tool(reply, asked, **message["params"].get("arguments", {}))
        else:
            error = {"code": -32601, "message": "Method not found"}
            await reply.send_message({"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def send_result(
        self, reply: Reply, asked: ReceivedRequest, result: Message, **headers: str
    ) -> None:
        answer = {"jsonrpc": "2.0", "id": asked.message["id"], "result": result}
        if self.style == "json":
            await reply.send_message(answer, 200, **headers)
        else:
            await reply.open_events(**headers)
            await reply.send_event(answer)
            await reply.close_events()

    async def send_text(self, reply: Reply, asked: ReceivedRequest, text: str) -> None:
        await self.send_result(reply, asked, {"content": [{"type": "text", "text": text}]})

    # -- tools

    async def tool_echo(self, reply: Reply, asked: ReceivedRequest, text: str = "") -> None:
        await self.send_text(reply, asked, text)

    async def tool_big(self, reply: Reply, asked: ReceivedRequest, megabytes: int) -> None:
        await self.send_text(reply, asked, "x" * (megabytes * 1_000_000))

    async def tool_packed(self, reply: Reply, asked: ReceivedRequest, megabytes: int) -> None:
        """Small on the wire."""
        text = "x" * (megabytes * 1_000_000)
        answer = {"jsonrpc": "2.0", "id": asked.message["id"], "result": {"content": [text]}}
        packed = gzip.compress(json.dumps(answer).encode())
        await reply.send_response(200, packed, Content_Encoding="gzip")

    async def tool_mute(self, reply: Reply, asked: ReceivedRequest) -> None:
        await anyio.sleep_forever()

    async def tool_drop(self, reply: Reply, asked: ReceivedRequest) -> None:
        raise Hangup

    async def tool_drop_in_the_middle(self, reply: Reply, asked: ReceivedRequest) -> None:
        await reply.open_events()
        await reply.send_event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        raise Hangup

    async def tool_cut_json(self, reply: Reply, asked: ReceivedRequest) -> None:
        await reply.write_raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        raise Hangup

    async def tool_status(self, reply: Reply, asked: ReceivedRequest, status: int) -> None:
        await reply.send_response(status)

    async def tool_page(self, reply: Reply, asked: ReceivedRequest) -> None:
        await reply.send_response(200, b"<h1>Welcome</h1>", "text/html; charset=utf-8")

    async def tool_elsewhere(
        self, reply: Reply, asked: ReceivedRequest, location: str, status: int
    ) -> None:
        if asked.path == location:
            await self.send_text(reply, asked, "here")
        else:
            await reply.send_response(status, Location=location)

    async def tool_accepted(self, reply: Reply, asked: ReceivedRequest) -> None:
        await reply.send_response(202)

    async def tool_garbage(self, reply: Reply, asked: ReceivedRequest) -> None:
        """Other answers than the one to this request, and then that one."""
        id = asked.message["id"]
        await reply.open_events()
        for other in (id + 1, str(id), True, None):
            await reply.send_event(
                {"jsonrpc": "2.0", "id": other, "result": {"content": ["theirs"]}}
            )
        await reply.send_chunk(b"data: {not json\n\n: a comment\n\nevent: other\ndata: {}\n\n")
        await reply.send_event({"jsonrpc": "2.0", "id": id, "result": {"content": ["mine"]}})
        await reply.send_event({"jsonrpc": "2.0", "id": id, "result": {"content": ["again"]}})
        await reply.close_events()

    async def tool_nag(self, reply: Reply, asked: ReceivedRequest) -> None:
        """Asks for ever; whoever answers is left waiting."""
        await reply.open_events()
        while True:
            await reply.send_event({"jsonrpc": "2.0", "id": "nag", "method": "ping"})

    async def tool_odd_marks(self, reply: Reply, asked: ReceivedRequest) -> None:
        """Numbers its events with what no header can hold."""
        await reply.open_events()
        await reply.send_event(id="h\u00e9\u4e16\x01", retry="1", data="")
        raise Hangup

    async def tool_endless_event(self, reply: Reply, asked: ReceivedRequest) -> None:
        await reply.open_events()
        await reply.send_chunk(b"data: ")
        while True:
            await reply.send_chunk(b"x" * 60_000)

    async def tool_trickle(self, reply: Reply, asked: ReceivedRequest) -> None:
        """A byte now and then, for ever."""
        await reply.open_events()
        while True:
            await reply.send_chunk(b":")
            await anyio.sleep(0.01)

    async def tool_progress(self, reply: Reply, asked: ReceivedRequest, steps: int) -> None:
        token = asked.message["params"]["_meta"]["progressToken"]
        await reply.open_events()
        for step in range(steps):
            params = {"progressToken": token, "progress": step}
            await reply.send_event(
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            )
        result = {"content": [{"type": "text", "text": "done"}]}
        await reply.send_event({"jsonrpc": "2.0", "id": asked.message["id"], "result": result})
        await reply.close_events()

    async def tool_ask(self, reply: Reply, asked: ReceivedRequest) -> None:
        """Asks the client something in the middle of the call."""
        await reply.open_events()
        await reply.send_event({"jsonrpc": "2.0", "id": "q1", "method": "ping"})
        with anyio.fail_after(30):
            while not [each for each in self.asked if each.message.get("id") == "q1"]:
                await self.stirred.wait()
        result = {"content": [{"type": "text", "text": "answered"}]}
        await reply.send_event({"jsonrpc": "2.0", "id": asked.message["id"], "result": result})
        await reply.close_events()

    async def tool_resumed(self, reply: Reply, asked: ReceivedRequest) -> None:
        """Ends its answer early, and goes on with it when asked from the right place."""
        id = asked.message["id"]

        async def rest(reply: Reply, again: ReceivedRequest) -> None:
            await reply.open_events()
            if again.headers.get("last-event-id") == "half-way":
                result = {"content": [{"type": "text", "text": "whole"}]}
                await reply.send_event({"jsonrpc": "2.0", "id": id, "result": result})
                await reply.close_events()
            else:
                await anyio.sleep_forever()

        self.streams["GET"] = rest
        await reply.open_events()
        await reply.send_event(id="half-way", retry="1", data="")
        raise Hangup


@asynccontextmanager
async def run_web_upstream(**options: Any) -> AsyncGenerator[WebUpstream, None]:
    server = WebUpstream(**options)
    async with anyio.create_task_group() as tasks:
        server.home = tasks
        await server.start()
        yield server
        tasks.cancel_scope.cancel()
