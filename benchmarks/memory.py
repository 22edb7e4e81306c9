"""The memory of the server while a result passes that is far too large: its peak, over its start.

    python -m benchmarks.memory [--gigabytes N] [--megabytes N]

A command that prints 1 GB; results of an upstream of 64 MB: as one text, with characters beyond
ASCII in it, and as structure. Linux only: the peak is read from /proc.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.proxy import Server

MB = 1_000_000
UPSTREAM = """
import json, sys

MB = 1_000_000

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "large", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": "large", "inputSchema": {"type": "object"}}]}
    kind, size = params["arguments"]["kind"], params["arguments"]["megabytes"] * MB
    if kind == "structure":
        rows = [{"n": number, "name": "x" * 50} for number in range(size // 86)]
        return {"content": [], "structuredContent": {"rows": rows}}
    line = "a line of text like any other\\n" if kind == "text" else "eine Zeile mit \\u00e4 und \\U0001f600\\n"
    return {"content": [{"type": "text", "text": line * (size // len(line.encode()))}]}

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        print(json.dumps(body, ensure_ascii=False), flush=True)
"""


def megabytes(process_id: int, name: str) -> float:
    status = Path(f"/proc/{process_id}/status").read_text(encoding="utf-8")
    found = re.search(rf"{name}:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) * 1024 / MB


def command(folder: Path) -> list[str]:
    settings, servers = folder / "settings.json", folder / "servers.json"
    settings.write_text(
        json.dumps({"permissions": {"allow": ["Bash", "mcp__large"]}}), encoding="utf-8"
    )
    upstream = {"command": sys.executable, "args": ["-c", UPSTREAM], "timeout": 300_000}
    servers.write_text(json.dumps({"mcpServers": {"large": upstream}}), encoding="utf-8")
    (folder / "workspace").mkdir(exist_ok=True)
    return [
        *(sys.executable, "-m", "mcp_dispatch", "serve"),
        *("--workspace", str(folder / "workspace"), "--state-dir", str(folder / "state")),
        *("--settings", str(settings), "--mcp-config", str(servers)),
    ]


def measure(folder: Path, name: str, arguments: dict[str, object]) -> tuple[float, float, int]:
    """How far the memory rose, in megabytes; seconds; and bytes that were kept."""
    server = Server(command(folder))
    try:
        client = {"name": "benchmark", "version": "1"}
        hello: dict[str, object] = {"protocolVersion": "2025-11-25", "capabilities": {}}
        server.send("initialize", {**hello, "clientInfo": client})
        server.receive()
        server.send("notifications/initialized", {}, notice=True)
        server.send("tools/list", {})
        server.receive()
        server.send("tools/call", {"name": "Bash", "arguments": {"command": "true"}})
        server.receive()
        before, began = megabytes(server.process.pid, "VmRSS"), time.monotonic()
        server.send("tools/call", {"name": name, "arguments": arguments})
        answer = json.dumps(server.receive())
        seconds = time.monotonic() - began
        rise = megabytes(server.process.pid, "VmHWM") - before
    finally:
        server.process.kill()
        server.process.wait()
    found = re.search(r"saved to: (\S+?)\\n", answer)
    assert found is not None, answer[:500]
    return rise, seconds, Path(found.group(1)).stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=int, default=1)
    parser.add_argument("--megabytes", type=int, default=64)
    options = parser.parse_args()
    size = options.gigabytes * 1000 * MB
    printing = f"head -c {size} /dev/zero | tr '\\0' 'x' | fold -w 100"
    ways: list[tuple[str, str, dict[str, object]]] = [
        (
            f"Bash, {options.gigabytes} GB printed",
            "Bash",
            {"command": printing, "timeout": 600_000},
        ),
        *(
            (
                f"upstream, {options.megabytes} MB of {kind}",
                "large__large",
                {"kind": kind, "megabytes": options.megabytes},
            )
            for kind in ("text", "wide", "structure")
        ),
    ]
    print(f"{'result':<36} {'peak over start':>16} {'seconds':>8} {'kept':>9}")
    for title, name, arguments in ways:
        with tempfile.TemporaryDirectory() as folder:
            rise, seconds, kept = measure(Path(folder), name, arguments)
        print(f"{title:<36} {rise:>13.0f} MB {seconds:>8.1f} {kept // MB:>6} MB", flush=True)


if __name__ == "__main__":
    main()
