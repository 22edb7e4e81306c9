"""Start-up to the first `tools/list` answer: with no upstream, and with many whose tools are known.

    python -m benchmarks.startup [--upstreams 20] [--rounds 9]

Both are measured in turn, so that a machine that gets slower slows both; what counts is the ratio.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds until the answer, and of CPU until then; how many tools it had."""

    wall: float
    cpu: float
    tools: int


def servers_file(folder: Path, count: int) -> Path:
    command = {"command": sys.executable, "args": ["-m", "mcp_dispatch.demo.upstream"]}
    file = folder / f"servers-{count}.json"
    file.write_text(
        json.dumps({"mcpServers": {f"server{at:02}": command for at in range(count)}}),
        encoding="utf-8",
    )
    return file


def start(folder: Path, servers: Path, *, stay: float = 0.0) -> Start:
    """One whole start; with `stay`, the servers have that many seconds to tell their tools."""
    command = [sys.executable, "-m", "mcp_dispatch", "serve", "--workspace", str(folder / "work")]
    command += ["--state-dir", str(folder / "state"), "--mcp-config", str(servers)]
    command += ["--settings", str(folder / "settings.json")]
    environ = {**os.environ, "MCP_DISPATCH_CONFIG_DIR": str(folder / "config")}
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        _send(process.stdin, id=1, method="initialize", params=HELLO)
        _answer(process.stdout, 1)
        _send(process.stdin, method="notifications/initialized")
        _send(process.stdin, id=2, method="tools/list", params={})
        tools = _answer(process.stdout, 2)["tools"]
        wall, cpu = time.perf_counter() - began, _cpu(process.pid)
        time.sleep(stay)
        process.stdin.close()
        process.wait(60)
    return Start(wall, cpu, len(tools))


def _send(stream: IO[bytes], **message: Any) -> None:
    stream.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    stream.flush()


def _answer(stream: IO[bytes], id: int) -> Any:
    for line in stream:
        message = json.loads(line)
        if message.get("id") == id:
            return message["result"]
    raise SystemExit("the server ended before it answered")


def _cpu(pid: int) -> float:
    """Of the process and the children it has waited for, in seconds; Linux only, else 0."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def measure(folder: Path, upstreams: int, rounds: int) -> tuple[list[Start], list[Start]]:
    (folder / "work").mkdir()
    # All of them are listed, which costs more than to keep them behind a search.
    never = {"dispatch": {"toolSearch": {"mode": "never"}}}
    (folder / "settings.json").write_text(json.dumps(never), encoding="utf-8")
    none, many = servers_file(folder, 0), servers_file(folder, upstreams)
    start(folder, none)
    start(folder, many, stay=0.5)  # the first list waits for servers that nobody has seen
    without: list[Start] = []
    with_them: list[Start] = []
    for at in range(rounds):
        pair = [(without, none), (with_them, many)]
        for starts, servers in pair if at % 2 else reversed(pair):
            starts.append(start(folder, servers))
    return without, with_them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstreams", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        without, with_them = measure(Path(name), options.upstreams, options.rounds)
    print(f"tools listed: {without[0].tools} without, {with_them[0].tools} with upstreams")
    for what in ("wall", "cpu"):
        for name, middle in (("median", statistics.median), ("best", min)):
            low = middle([getattr(each, what) for each in without])
            high = middle([getattr(each, what) for each in with_them])
            ratio = f"{high / low:.3f}" if low else "unknown"
            print(f"{what}, {name}: {low:.3f} s without, {high:.3f} s with: ratio {ratio}")


if __name__ == "__main__":
    main()
