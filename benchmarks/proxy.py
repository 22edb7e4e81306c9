"""The cost of one call: direct, through mcp-dispatch, through FastMCP's proxy; as ratios of one run.

    python -m benchmarks.proxy [--fastmcp PYTHON] [--calls N]

The client is a bare line writer, so that only the server side is measured. `--fastmcp` names a
Python that has `fastmcp` installed; without it that column is left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
UPSTREAM = [sys.executable, "-m", "mcp_dispatch.demo.upstream"]
FASTMCP = """
import sys
from fastmcp.server import create_proxy
create_proxy({"mcpServers": {"demo": {"command": sys.argv[1], "args": sys.argv[2:]}}}).run(
    show_banner=False
)
"""


@dataclass(frozen=True)
class Way:
    """A way to reach the tool `recall` of the small upstream that ships with the package."""

    name: str
    command: list[str]
    tool: str


@dataclass(frozen=True)
class Figures:
    first_list: float
    median: float
    cpu: float
    together: float


class Server:
    """A server process and its two pipes."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        self._number = 0

    def send(self, method: str, params: object, *, notice: bool = False) -> None:
        assert self.process.stdin is not None
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not notice:
            self._number += 1
            message["id"] = self._number
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, object]:
        assert self.process.stdout is not None
        while True:
            message: dict[str, object] = json.loads(self.process.stdout.readline())
            if "id" in message and "method" not in message:
                assert "result" in message, message
                return message

    def cpu_seconds(self) -> float:
        """Of the process itself; its children are not in it."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rsplit(")")[-1]
        user, system = fields.split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


def measure(way: Way, calls: int) -> Figures:
    begun = time.perf_counter()
    server = Server(way.command)
    client = {"name": "benchmark", "version": "1"}
    version: dict[str, object] = {"protocolVersion": "2025-11-25", "clientInfo": client}
    version["capabilities"] = {}
    server.send("initialize", version)
    server.receive()
    server.send("notifications/initialized", {}, notice=True)
    server.send("tools/list", {})
    server.receive()
    first_list = time.perf_counter() - begun
    call: dict[str, object] = {"name": way.tool, "arguments": {}}
    for _ in range(20):
        server.send("tools/call", call)
        server.receive()
    cpu, times = server.cpu_seconds(), list[float]()
    for _ in range(calls):
        start = time.perf_counter()
        server.send("tools/call", call)
        server.receive()
        times.append(time.perf_counter() - start)
    cpu = (server.cpu_seconds() - cpu) / calls
    start = time.perf_counter()
    for _ in range(calls // 32):
        for _ in range(32):
            server.send("tools/call", call)
        for _ in range(32):
            server.receive()
    together = (time.perf_counter() - start) / (calls // 32 * 32)
    server.stop()
    return Figures(first_list, statistics.median(times), cpu, together)


@contextmanager
def ways(fastmcp: str | None) -> Generator[list[Way], None, None]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        servers, settings = place / "servers.json", place / "settings.json"
        entry = {"command": UPSTREAM[0], "args": UPSTREAM[1:]}
        servers.write_text(json.dumps({"mcpServers": {"demo": entry}}), encoding="utf-8")
        settings.write_text('{"permissions": {"allow": ["mcp__demo"]}}', encoding="utf-8")
        serve = [sys.executable, "-m", "mcp_dispatch", "serve", "--workspace", folder]
        flags = ["--settings", str(settings), "--mcp-config", str(servers)]
        state = ["--state-dir", str(place / "state")]
        found = [
            Way("direct", UPSTREAM, "recall"),
            Way("mcp-dispatch", [*serve, *flags, *state], "demo__recall"),
        ]
        if fastmcp:
            found.append(Way("FastMCP proxy", [fastmcp, "-c", FASTMCP, *UPSTREAM], "recall"))
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--fastmcp", metavar="PYTHON", help="a Python with fastmcp installed")
    parser.add_argument("--calls", type=int, default=640)
    options = parser.parse_args()
    with ways(options.fastmcp) as found:
        results = {way.name: measure(way, options.calls) for way in found}
    ours = results["mcp-dispatch"]
    print(f"{'':14} {'first list':>12} {'call, median':>14} {'CPU a call':>12} {'32 at once':>12}")
    for name, each in results.items():
        print(
            f"{name:14} {each.first_list:10.2f} s {each.median * 1e3:11.2f} ms"
            f" {each.cpu * 1e3:9.2f} ms {each.together * 1e3:9.2f} ms"
        )
    for name, each in results.items():
        if each is not ours:
            print(
                f"{name + ' / ours':22} {each.first_list / ours.first_list:4.1f}x"
                f" {each.median / ours.median:12.1f}x {each.cpu / max(ours.cpu, 1e-9):11.1f}x"
                f" {each.together / ours.together:11.1f}x"
            )


if __name__ == "__main__":
    main()
