"""An upstream with as many tools as one likes: `python -m benchmarks.many_tools FILE FIRST COUNT`.

FILE has a definition in each line, as `toolsearch/tools.jsonl` of the folder of cases. Names that
come up again get a number.
"""

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Any


def definitions(file: Path, first: int, count: int) -> list[dict[str, Any]]:
    chosen: dict[str, dict[str, Any]] = {}
    with file.open(encoding="utf-8") as lines:
        for row in map(json.loads, islice(lines, first, first + count)):
            name = row["name"] if row["name"] not in chosen else f"{row['name']}_{len(chosen)}"
            kept = {key: row[key] for key in ("description", "inputSchema") if key in row}
            chosen[name] = {"name": name, **kept}
    return list(chosen.values())


def answer(method: str, params: dict[str, Any], tools: list[dict[str, Any]]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "many-tools", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": tools}
    return {"content": [{"type": "text", "text": json.dumps(params)}]} if params else {}


def main() -> None:
    tools = definitions(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], message.get("params", {}), tools)
            told = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
            sys.stdout.buffer.write(told.encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
