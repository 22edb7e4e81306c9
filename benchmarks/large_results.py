"""The time that a large result takes on its way from a server, over a pipe and over HTTP.

    python -m benchmarks.large_results [--megabytes 7 28] [--rounds N]

Each figure is the best of all rounds, in CPU seconds of this process; the server has one of its
own. The ratio says how the time grows: as much as the size, if it is linear.
Above 32 MB the C library takes each block anew from the system, which about doubles the time per
byte: compare two sizes on the same side of it.
"""

import argparse
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from mcp_dispatch.model.client import ClientBridge, NoClient
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.lifecycle import ServerState
from mcp_dispatch.upstream.requests.send import RequestSpec
from mcp_dispatch.upstream.supervisor import Supervisor
from tests.support.upstreams.support import raw_server, run_supervised, wait_for_state
from tests.support.upstreams.web_process import run_web_process

WAYS = ("stdio", "http, json", "http, events")


@asynccontextmanager
async def server_by(way: str) -> AsyncGenerator[ServerConfig, None]:
    if way == "stdio":
        yield raw_server()
        return
    async with run_web_process("json" if way == "http, json" else "sse") as server:
        yield server


@asynccontextmanager
async def reached_by(way: str, folder: Path) -> AsyncGenerator[Supervisor, None]:
    async with server_by(way) as config, run_supervised(folder, config) as server:
        await wait_for_state(server, ServerState.READY)
        yield server


async def seconds(server: Supervisor, megabytes: int) -> float:
    begun = time.process_time()
    spec = RequestSpec("tools/call", {"name": "big", "arguments": {"megabytes": megabytes}}, "big")
    answer = await server.send(spec, ClientBridge("benchmark", NoClient()))
    spent = time.process_time() - begun
    assert isinstance(answer, dict)
    return spent


async def measure(sizes: list[int], rounds: int) -> None:
    small, large = min(sizes), max(sizes)
    print(
        f"{'way':14} {f'{small} MB':>9} {f'{large} MB':>9} {'ratio':>6}   linear: {large / small:g}"
    )
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            async with reached_by(way, Path(folder)) as server:
                await seconds(server, 1)
                best = [
                    min([await seconds(server, size) for _ in range(rounds)])
                    for size in (small, large)
                ]
        print(f"{way:14} {best[0]:9.3f} {best[1]:9.3f} {best[1] / best[0]:6.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, nargs=2, default=[7, 28])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    anyio.run(measure, options.megabytes, options.rounds)


if __name__ == "__main__":
    main()
