"""An upstream that offers and answers what a file says: `scripted.py FILE`.

The file is an object: `{"name": {"definition": {…}, "results": {"case": {…}}}}`. A call names the case
in its arguments; without one it gets the case "small". A result with `"repeat": [text, count]` is
answered with one text block of that many repetitions.
"""

import json
import sys
from pathlib import Path
from typing import Any


def answer(tools: dict[str, Any], method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "scripted", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": name, **tool["definition"]} for name, tool in tools.items()]}
    if method == "tools/call":
        case = params.get("arguments", {}).get("case", "small")
        result: dict[str, Any] = tools[params["name"]]["results"][case]
        if "repeat" in result:
            text, count = result["repeat"]
            return {"content": [{"type": "text", "text": text * count}]}
        return result
    return None


def main() -> None:
    tools = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(tools, message["method"], message.get("params") or {})
        body = (
            {"result": result}
            if result is not None
            else {"error": {"code": -32601, "message": "?"}}
        )
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
