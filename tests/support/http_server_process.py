"""A real server process on a port of its own, and clients for it over HTTP, in either era."""

import json
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import anyio
import httpx2
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from mcp_dispatch.model.json import Json, JsonObject
from tests.support.client import Era, Installation

LINE_BYTES = 10_000
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class HttpServerProcess:
    """A server that has said where it is."""

    def __init__(self, child: Process, said: list[str], errors: BufferedByteReceiveStream) -> None:
        self.child = child
        self.said = said
        self._errors = errors
        found = re.search(r"http://\S+/mcp$", said[0])
        assert found is not None, said
        self.url = found.group()
        shown = re.search(r"clients need the token in (.+); show it with", said[1])
        self.token = Path(shown.group(1)).read_text(encoding="utf-8").strip() if shown else None

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def http(self) -> httpx2.AsyncClient:
        """Bare HTTP, with the token."""
        return httpx2.AsyncClient(headers=self.headers, timeout=30)

    @asynccontextmanager
    async def client(self, era: Era, **callbacks: Any) -> AsyncGenerator[Client, None]:
        async with self.http() as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=era, **callbacks) as client:
                yield client

    def peak_kilobytes(self) -> int:
        status = Path(f"/proc/{self.child.pid}/status").read_text(encoding="utf-8")
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found.group(1))

    async def end(self, seconds: float = 20) -> int:
        with anyio.fail_after(seconds):
            return await self.child.wait()

    async def last_words(self) -> str:
        """What else it has said, once it has ended."""
        text = b""
        with anyio.fail_after(5):
            try:
                while True:
                    text += await self._errors.receive()
            except anyio.EndOfStream:
                return text.decode()


@asynccontextmanager
async def start_http_server(
    installed: Installation,
    *flags: str,
    http: str = "127.0.0.1:0",
    environ: Mapping[str, str] | None = None,
) -> AsyncGenerator[HttpServerProcess, None]:
    """Asks the server to end, unless the test has ended it already."""
    async with await anyio.open_process(
        [*installed.command, "--http", http, *flags],
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        env={**installed.environ, **(environ or {})},
        cwd=installed.workspace,
    ) as child:
        assert child.stderr is not None
        errors = BufferedByteReceiveStream(child.stderr)
        try:
            with anyio.fail_after(30):
                lines = [await errors.receive_until(b"\n", LINE_BYTES) for _ in range(2)]
            running = HttpServerProcess(child, [line.decode() for line in lines], errors)
            yield running
            if child.returncode is None:
                child.terminate()
                await running.end()
        finally:
            if child.returncode is None:
                child.kill()


class Session:
    """A client of 2025-11-25 that speaks bare HTTP."""

    def __init__(self, http: httpx2.AsyncClient, url: str, id: str) -> None:
        self.http = http
        self.url = url
        self.id = id

    @property
    def headers(self) -> dict[str, str]:
        version = {"MCP-Protocol-Version": "2025-11-25"}
        return {**ACCEPT, **version, "Mcp-Session-Id": self.id}

    async def post(self, message: JsonObject) -> httpx2.Response:
        return await self.http.post(self.url, headers=self.headers, json=message)

    async def delete(self) -> int:
        return (await self.http.delete(self.url, headers=self.headers)).status_code


def initialize(capabilities: JsonObject | None = None) -> JsonObject:
    return {
        "jsonrpc": "2.0",
        "id": "hello",
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities or {},
            "clientInfo": {"name": "bare", "version": "1"},
        },
    }


async def open_session(http: httpx2.AsyncClient, url: str) -> Session:
    answer = await http.post(url, headers=ACCEPT, json=initialize())
    assert answer.status_code == 200, answer.text
    session = Session(http, url, answer.headers["mcp-session-id"])
    done = await session.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert done.status_code == 202
    return session


def events(answer: httpx2.Response) -> list[JsonObject]:
    """The messages of an event stream."""
    found: list[Json] = [
        json.loads(line.removeprefix("data: "))
        for line in answer.text.splitlines()
        if line.startswith("data: ")
    ]
    return [event for event in found if isinstance(event, dict)]


def modern(method: str, id: Json = 1, **params: Json) -> tuple[dict[str, str], JsonObject]:
    """Headers and body of a request of 2026-07-28."""
    meta: JsonObject = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {**ACCEPT, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    name = params.get("name")
    if isinstance(name, str):
        headers["Mcp-Name"] = name
    uri = params.get("uri")
    if isinstance(uri, str):
        headers["Mcp-Name"] = uri
    body: JsonObject = {
        "jsonrpc": "2.0",
        "id": id,
        "method": method,
        "params": {**params, "_meta": meta},
    }
    return headers, body


def is_alive(pid: int) -> bool:
    """Whether the process still runs: a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def until_gone(pid: int) -> None:
    with anyio.fail_after(15):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            await anyio.wait_readable(descriptor)
        finally:
            os.close(descriptor)
