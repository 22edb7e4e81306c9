"""A real MCP client connected to a real server process, in either era."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio.abc import Process
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.codec import decode, encode
from mcp_dispatch.wire.lines import BoundedLineReader

Era = Literal["legacy", "2026-07-28"]
BUILT_INS = ("Bash", "Edit", "Glob", "Grep", "Read", "TaskStop", "WebFetch", "Write")
ERAS: tuple[Era, ...] = ("legacy", "2026-07-28")


class Installation:
    """A workspace, a state directory, rules and servers, all under one temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.state = folder / "state"
        self.config = folder / "config"
        self.workspace.mkdir()
        self.config.mkdir()
        self._flags: list[str] = []

    def add_rules(self, **permissions: Sequence[str] | str | bool) -> "Installation":
        return self.add_settings({"permissions": dict(permissions)})

    def add_settings(self, content: Mapping[str, Any]) -> "Installation":
        path = self.folder / f"settings-{len(self._flags)}.json"
        path.write_text(json.dumps(content, indent=2), encoding="utf-8")
        return self.add_flags("--settings", str(path))

    def add_upstream(self, name: str, *command: str, **more: Any) -> "Installation":
        path = self.folder / f"servers-{name}.json"
        entry = {"command": command[0], "args": list(command[1:]), **more}
        path.write_text(json.dumps({"mcpServers": {name: entry}}), encoding="utf-8")
        return self.add_flags("--mcp-config", str(path))

    def add_flags(self, *flags: str) -> "Installation":
        self._flags += flags
        return self

    def write_file(self, name: str, content: str | bytes) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "MCP_DISPATCH_CONFIG_DIR": str(self.config)}

    @property
    def command(self) -> list[str]:
        named = ["--workspace", str(self.workspace), "--state-dir", str(self.state)]
        return [sys.executable, "-m", "mcp_dispatch", "serve", *named, *self._flags]

    def build_command(self, command: str, *words: str) -> list[str]:
        """Another command with the flags of this installation."""
        return [*(command if word == "serve" else word for word in self.command), *words]

    def run(self, command: str, *words: str, said: str = "") -> "subprocess.CompletedProcess[str]":
        """The same, run to its end; `said` is its standard input."""
        return subprocess.run(
            self.build_command(command, *words),
            env=self.environ,
            input=said,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    @asynccontextmanager
    async def open_client(
        self, era: Era = "legacy", **callbacks: Any
    ) -> AsyncGenerator[Client, None]:
        command, *args = self.command
        server = StdioServerParameters(
            command=command, args=args, env=self.environ, cwd=self.workspace
        )
        with (self.folder / "stderr").open("a", encoding="utf-8") as errors:
            transport = stdio_client(server, errlog=errors)
            async with Client(transport, mode=era, **callbacks) as client:
                yield client

    def read_journal(self) -> list[JsonObject]:
        files = sorted((self.state / "journal").glob("*.jsonl"))
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        entries: list[Json] = [json.loads(line) for line in lines]
        return [entry for entry in entries if isinstance(entry, dict)]


def extract_text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


class RawServer:
    """The server's process and its pipes, for a client that speaks bytes."""

    def __init__(self, child: Process) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self.child = child
        self.stdin, self.stdout = child.stdin, child.stdout
        self._lines = BoundedLineReader(self._receive, 200_000_000)

    async def _receive(self) -> bytes:
        try:
            return await self.stdout.receive()
        except anyio.EndOfStream:
            return b""

    async def send(self, *messages: JsonObject | bytes) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else encode(message)
            await self.stdin.send(line + b"\n")

    async def receive(self) -> JsonObject:
        line = await self._lines.read_line()
        assert isinstance(line, bytes)
        message = decode(line)
        assert isinstance(message, dict)
        return message

    async def answer(self, id: Json) -> JsonObject:
        """The next message with this id; what comes before it is passed over."""
        while True:
            message = await self.receive()
            if message.get("id") == id and "method" not in message:
                return message

    async def handshake(self, capabilities: JsonObject | None = None) -> None:
        await self.send(
            {
                "jsonrpc": "2.0",
                "id": "hello",
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": capabilities or {},
                    "clientInfo": {"name": "raw", "version": "1"},
                },
            }
        )
        await self.answer("hello")
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def call(self, id: Json, name: str, /, **arguments: Json) -> None:
        await self.send(build_tools_call(id, name, **arguments))


def build_tools_call(id: Json, name: str, /, **arguments: Json) -> JsonObject:
    params: JsonObject = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


@asynccontextmanager
async def start_raw_server(installation: Installation) -> AsyncGenerator[RawServer, None]:
    """Ends the process by closing its stdin, as clients do, unless the test ended it already."""
    async with await anyio.open_process(
        installation.command, env=installation.environ, cwd=installation.workspace, stderr=None
    ) as child:
        try:
            yield RawServer(child)
            assert child.stdin is not None
            await child.stdin.aclose()
            with anyio.fail_after(20):
                await child.wait()
        finally:
            if child.returncode is None:
                child.kill()


def extract_raw_text(message: JsonObject) -> str:
    """The text of a raw answer to `tools/call`."""
    result = message["result"]
    assert isinstance(result, dict)
    content = result["content"]
    assert isinstance(content, list)
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
