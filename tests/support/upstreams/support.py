"""Shared by the upstream tests: configurations of test servers, and helpers to observe them."""

import json
import math
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from mcp_dispatch.model.client import ClientBridge, InputRequired, NoClient
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.upstream.config.model import MAX_MESSAGE_BYTES, ServerConfig, StdioEndpoint
from mcp_dispatch.upstream.connection import Connection
from mcp_dispatch.upstream.lifecycle import ServerState, Timing
from mcp_dispatch.upstream.listener import UpstreamListener
from mcp_dispatch.upstream.requests.send import RequestSpec
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.transports.open import LaunchContext
from mcp_dispatch.upstream.transports.process import StderrLog, run_server_process
from mcp_dispatch.upstream.transports.stdio import StdioTransport
from mcp_dispatch.upstream.upstreams import Upstreams

RAW = str(Path(__file__).with_name("raw.py"))


def raw_server(name: str = "raw", *options: str, **more: Any) -> ServerConfig:
    return ServerConfig(name, raw_launch(*options), **more)


def raw_launch(*options: str, **more: Any) -> StdioEndpoint:
    return StdioEndpoint(sys.executable, ("-S", "-E", RAW, *options), **more)


def read_received(log: Path, method: str | None = None) -> list[Any]:
    """What the server was sent, in order; with a method, the params of those messages only."""
    if not log.exists():
        return []
    messages = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    if method is None:
        return messages
    return [message.get("params") for message in messages if message.get("method") == method]


def list_starts(log: Path) -> list[int]:
    """The process ids under which the server has run."""
    return [message["pid"] for message in read_received(log) if "pid" in message]


async def wait_for_message(log: Path, method: str, count: int = 1) -> list[Any]:
    """Wait until the server has logged `count` messages of this method."""
    with anyio.fail_after(30):
        while len(found := read_received(log, method)) < count:
            await anyio.lowlevel.checkpoint()
    return found


async def wait_for_state(server: Supervisor, *states: ServerState) -> None:
    with anyio.fail_after(10):
        while server.state not in states:
            await anyio.lowlevel.checkpoint()


def is_running(pid: int) -> bool:
    """Whether it still runs; one that is dead but not yet collected by its parent does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or ") Z " not in status.read_text(encoding="utf-8")


class HeldPause:
    """Stands for the clock: records what is waited for and lets nobody go on until `release`."""

    def __init__(self) -> None:
        self.requested: list[float] = []
        self.release = anyio.Event()

    async def __call__(self, seconds: float) -> None:
        self.requested.append(seconds)
        await self.release.wait()

    async def wait_for_pauses(self, count: int) -> None:
        """Wait until so many waits have begun."""
        with anyio.fail_after(10):
            while len(self.requested) < count:
                await anyio.lowlevel.checkpoint()


async def skip_pause(_: float) -> None:
    await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def run_upstreams(
    folder: Path,
    *configs: ServerConfig,
    environ: Mapping[str, str] | None = None,
    timing: Timing | None = None,
    listener: UpstreamListener | None = None,
) -> AsyncGenerator[Upstreams, None]:
    seen = os.environ if environ is None else environ
    async with (
        ProcessGroup() as children,
        Upstreams(
            configs,
            LaunchContext(children, folder / "logs", seen, folder),
            listener,
            timing=timing,
        ) as every,
    ):
        yield every


@asynccontextmanager
async def run_supervised(
    folder: Path, config: ServerConfig, **timing: Any
) -> AsyncGenerator[Supervisor, None]:
    async with run_upstreams(folder, config, timing=Timing(**timing)) as every:
        yield every.servers[0]


async def call_tool(
    server: Supervisor, tool: str, arguments: JsonObject, progress: Progress | None = None
) -> JsonObject | ProtocolError:
    """Call a tool for a client that answers no requests of the server."""
    params: JsonObject = {"name": tool, "arguments": arguments}
    spec = RequestSpec("tools/call", params, tool, {}, progress)
    answer = await server.send(spec, ClientBridge("test", NoClient()))
    assert not isinstance(answer, InputRequired)
    return answer


@asynccontextmanager
async def open_connection(
    folder: Path, config: ServerConfig, *, line_limit: int = MAX_MESSAGE_BYTES
) -> AsyncGenerator["ConnectionUnderTest", None]:
    """A connection before its handshake."""
    assert isinstance(config.endpoint, StdioEndpoint)
    async with (
        ProcessGroup() as children,
        run_server_process(
            config.endpoint, children, StderrLog(folder, config.name), os.environ, folder
        ) as process,
        anyio.create_task_group() as tasks,
    ):
        session = ConnectionUnderTest()
        session.transport = StdioTransport(
            process, session.record_invalid_line, line_limit=line_limit
        )
        session.connection = Connection(session.transport, lambda _: session.record_change())
        await tasks.start(session.connection.run)
        yield session
        tasks.cancel_scope.cancel()


class ConnectionUnderTest:
    """A connection under test and what came beside its answers."""

    transport: StdioTransport
    connection: Connection

    def __init__(self) -> None:
        self.invalid_lines: list[str] = []
        self.changes = 0

    def record_invalid_line(self, kind: str, _: bytes) -> None:
        self.invalid_lines.append(kind)

    def record_change(self) -> None:
        self.changes += 1

    async def call(
        self,
        name: str,
        arguments: JsonObject,
        *,
        meta: JsonObject,
        progress: Progress | None,
        timeout: float,
        idle_timeout: float = math.inf,
    ) -> JsonObject | ProtocolError:
        return await self.connection.request(
            "tools/call",
            {"name": name, "arguments": arguments},
            meta=meta,
            progress=progress,
            timeout=timeout,
            idle_timeout=idle_timeout,
        )
