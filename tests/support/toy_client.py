"""A minimal client over real pipes, without the SDK, for tests of the wire format."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.lowlevel import checkpoint

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.codec import decode, encode
from mcp_dispatch.wire.fds import FdReader, FdWriter
from mcp_dispatch.wire.lines import BoundedLineReader, OverlongLine
from mcp_dispatch.wire.sdk import serve
from mcp_dispatch.wire.stdio_server import StdioLimits, StdioStreams, open_stdio
from tests.support.toy_stdio_server import Toys, toy_server


class ToyClient:
    """The client's ends of the pipes, which it owns."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self.reader, self.writer = FdReader(reading), FdWriter(writing)
        self._lines = BoundedLineReader(self.reader.receive, 100_000_000)

    async def send(self, *messages: JsonObject | bytes) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else encode(message)
            await self.writer.send(line + b"\n")

    async def call(self, id: Json, tool: str, arguments: JsonObject | None = None) -> None:
        await self.send(call(id, tool, arguments))

    async def answer(self) -> Json:
        line = await self._lines.read_line()
        assert not isinstance(line, OverlongLine)
        return decode(line)

    def stop_writing(self) -> None:
        self.writer.close()
        if self._writing >= 0:
            os.close(self._writing)
        self._writing = -1

    def stop_reading(self) -> None:
        self.reader.close()
        if self._reading >= 0:
            os.close(self._reading)
        self._reading = -1


def call(id: Json, tool: str, arguments: JsonObject | None = None) -> JsonObject:
    params: JsonObject = {"name": tool, "arguments": arguments or {}}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


async def wait_until(reached: Callable[[], bool]) -> None:
    """Let the event loop turn, which also looks at the pipes, until something has come true."""
    with anyio.fail_after(10):
        while not reached():
            await checkpoint()


async def until_steady(measure: Callable[[], int], turns: int = 2000) -> None:
    """Let the event loop turn until a number over zero has stayed the same for many turns."""
    with anyio.fail_after(10):
        last, same = 0, 0
        while same < turns:
            await checkpoint()
            now = measure()
            last, same = now, same + 1 if now and now == last else 0


@asynccontextmanager
async def serve_toy_server(
    limits: StdioLimits | None = None,
) -> AsyncGenerator[tuple[ToyClient, Toys, StdioStreams]]:
    """A toy server in this process and a client of it, connected by two pipes."""
    to_server, from_client = os.pipe()
    to_client, from_server = os.pipe()
    client = ToyClient(to_client, from_client)
    try:
        with anyio.fail_after(20):
            async with open_stdio(limits, (to_server, from_server)) as stdio:
                toys = Toys(stdio.write_queue.wait_for_capacity)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(serve, toy_server(toys), stdio.reader, stdio.writer)
                    yield client, toys, stdio
                    client.stop_writing()
    finally:
        client.stop_writing()
        client.stop_reading()
        os.close(to_server)
        os.close(from_server)
