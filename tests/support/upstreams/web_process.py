"""The upstream of `web` in a process of its own, where the time that it takes is not ours.

    python -m tests.support.upstreams.web_process json|sse

It writes its URL, and serves until its stdin ends.
"""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_dispatch.upstream.config.model import RemoteEndpoint, ServerConfig
from tests.support.upstreams.web import Style, run_web_upstream


@asynccontextmanager
async def run_web_process(style: Style) -> AsyncGenerator[ServerConfig, None]:
    """How to reach it; left, it has ended."""
    command = [sys.executable, "-m", __name__, style]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1_000)
        yield ServerConfig("web", RemoteEndpoint("http", url.decode()))
        await process.stdin.aclose()
        await process.wait()


async def _serve(style: Style) -> None:
    async with run_web_upstream(style=style) as web:
        os.write(sys.stdout.fileno(), f"{web.url}\n".encode())
        await anyio.to_thread.run_sync(sys.stdin.read)


if __name__ == "__main__":
    anyio.run(_serve, "json" if sys.argv[1] == "json" else "sse")
