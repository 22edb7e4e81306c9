"""An upstream written by hand, so that it can say things no SDK would: `raw.py [options]`.

Every message it receives is appended to `--log` as one JSON line before it is answered, after a
first line with the process id; that is how tests see what was sent and how often.
"""

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]

VENDOR_TOOL: Message = {
    "name": "vendor",
    "x-first": None,
    "description": "Answers with fields that no schema knows.",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"when": {"$ref": "#/$defs/moment"}, "note": {"default": None}},
        "$defs": {"moment": {"type": ["string", "null"], "x-vendor": {"a": [1, None]}}},
    },
    "annotations": {"readOnlyHint": True, "x-cost": 123456789012345678901234567890},
    "_meta": {"anthropic/maxResultSizeChars": 100000, "vendor/null": None},
    "x-last": [1, 2.5, None],
}
VENDOR_RESULT: Message = {
    "x-top": None,
    "content": [{"type": "text", "text": "héllo", "x-block": {"k": None}}, {"type": "x-new"}],
    "structuredContent": {"big": 123456789012345678901234567890, "one": 1, "real": 1.0, "n": None},
    "_meta": {"vendor/key": {"deep": None}},
}


def doubling_schema(levels: int) -> Message:
    definitions: Message = {"d0": {"type": "string"}}
    for level in range(1, levels):
        before = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"allOf": [before, before]}
    top = {"$ref": f"#/$defs/d{levels - 1}"}
    return {"type": "object", "properties": {"x": top}, "$defs": definitions}


def plain_tool(name: str, **more: Any) -> Message:
    return {"name": name, "description": name, "inputSchema": {"type": "object"}, **more}


class Upstream:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.awaiting: dict[str, Message] = {}
        self.answers: list[Message] = []
        self.extra: list[Message] = [plain_tool(name) for name in options.extra]

    # -- plumbing

    def log(self, message: Any) -> None:
        if self.options.log:
            with Path(self.options.log).open("a", encoding="utf-8") as file:
                file.write(json.dumps(message) + "\n")

    def write_raw(self, text: str) -> None:
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()

    def send(self, **message: Any) -> None:
        self.write_raw(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def serve(self) -> None:
        self.log({"pid": os.getpid()})
        for line in sys.stdin.buffer:
            message = json.loads(line)
            self.log(message)
            self.receive(message)
        if self.options.ignore_eof:
            while True:
                time.sleep(60)

    def receive(self, message: Message) -> None:
        if "method" not in message:
            self.handle_answer(message)
        elif "id" in message:
            name = "on_" + message["method"].replace("/", "_")
            answer: Callable[[Message], None] = getattr(self, name, self.refuse_method)
            answer(message)

    def refuse_method(self, message: Message) -> None:
        self.fail(message, -32601, "Method not found")

    def fail(self, message: Message, code: int, text: str, **more: Any) -> None:
        self.send(id=message["id"], error={"code": code, "message": text, **more})

    def send_result(self, message: Message, **result: Any) -> None:
        self.send(id=message["id"], result=result)

    def send_text(self, message: Message, text: str) -> None:
        self.send_result(message, content=[{"type": "text", "text": text}])

    # -- the handshake and the list

    def on_initialize(self, message: Message) -> None:
        if self.options.mute:
            return
        if self.options.refuse_initialize:
            self.fail(message, self.options.refuse_initialize, "initialize is not for me")
            return
        self.send_result(
            message,
            protocolVersion=self.options.version or message["params"]["protocolVersion"],
            capabilities={"tools": {"listChanged": True}},
            serverInfo={"name": "raw", "version": "1"},
        )

    def on_server_discover(self, message: Message) -> None:
        if not self.options.modern:
            self.refuse_method(message)
            return
        self.send_result(
            message,
            resultType="complete",
            supportedVersions=["2026-07-28"],
            capabilities={"tools": {}},
        )

    def on_tools_list(self, message: Message) -> None:
        if self.options.mute_list:
            return
        tools = self.list_tools()
        size = self.options.page or len(tools)
        start = int(message.get("params", {}).get("cursor", 0))
        page: Message = {"tools": tools[start : start + size]}
        if self.options.loop_cursor:
            page["nextCursor"] = "0"
        elif start + size < len(tools):
            page["nextCursor"] = str(start + size)
        self.send_result(message, **page)

    def list_tools(self) -> list[Message]:
        names = [name.removeprefix("tool_") for name in dir(self) if name.startswith("tool_")]
        mine = [VENDOR_TOOL if name == "vendor" else plain_tool(name) for name in names]
        hostile = {"name": "hostile", "inputSchema": doubling_schema(40)}
        odd: list[Any] = [hostile, {"name": "schemaless"}, {"inputSchema": {}}, 7]
        if self.has_appeared(self.options.late_if):
            mine.append(plain_tool("late"))
        if self.has_appeared(self.options.swap_if):
            swapped = {**VENDOR_TOOL["annotations"], "readOnlyHint": False}
            mine = [
                {**tool, "annotations": swapped} if tool is VENDOR_TOOL else tool for tool in mine
            ]
        return [*mine, *(odd if self.options.odd_tools else []), *self.extra]

    def has_appeared(self, path: str | None) -> bool:
        return path is not None and Path(path).exists()

    # -- calls

    def on_tools_call(self, message: Message) -> None:
        name = message["params"]["name"]
        known = any(extra["name"] == name for extra in self.extra)
        other = self.answer_extra if known else self.refuse_tool
        tool: Callable[..., None] = getattr(self, "tool_" + name, other)
        tool(message, **message["params"].get("arguments", {}))

    def tool_echo(self, message: Message, /, **_: Any) -> None:
        self.send_result(message, content=[], structuredContent={"received": message})

    def tool_vendor(self, message: Message, **_: Any) -> None:
        self.send_result(message, **VENDOR_RESULT)

    def tool_fail(self, message: Message, /, **error: Any) -> None:
        self.send(id=message["id"], error=error)

    def tool_progress(self, message: Message, steps: int = 3) -> None:
        token = message["params"].get("_meta", {}).get("progressToken")
        for step in range(1, steps + 1):
            params = {"progressToken": token, "progress": step, "total": steps, "x-unit": None}
            if token is not None:
                self.send(method="notifications/progress", params=params)
        self.send_text(message, "done")

    def tool_progress_forever(self, message: Message) -> None:
        token = message["params"]["_meta"]["progressToken"]
        for step in itertools.count():
            params = {"progressToken": token, "progress": step}
            self.send(method="notifications/progress", params=params)

    def tool_mute(self, message: Message, /, **_: Any) -> None:
        """Never answers."""

    def tool_stall(self, message: Message, fifo: str) -> None:
        """Reads nothing more until somebody has written to `fifo`."""
        Path(fifo).read_bytes()
        self.send_text(message, "went on")

    def tool_crash(self, message: Message, code: int = 3) -> None:
        os._exit(code)

    def tool_die(self, message: Message) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def tool_crash_leaving_child(self, message: Message) -> None:
        """Leaves a process that holds its pipes open."""
        child = subprocess.Popen(["sleep", "60"])
        self.log({"child": child.pid})
        os._exit(5)

    def tool_nag(self, message: Message) -> None:
        """Asks for ever and never reads an answer."""
        while True:
            self.send(id="nag", method="ping")

    def tool_hang_up(self, message: Message) -> None:
        """Closes its output and lives on."""
        os.close(1)
        while True:
            time.sleep(60)

    def tool_flood_stderr(self, message: Message, lines: int = 40_000) -> None:
        for number in range(lines):
            sys.stderr.write(f"{number:09d} " + "x" * 89 + "\n")
        sys.stderr.flush()
        self.send_text(message, "flooded")

    def tool_garbage(self, message: Message) -> None:
        self.write_raw("Listening on port 0!\n\n{not json\n[1, 2]\n\udcff\udcfe\n")
        self.send(id=99999, result={"content": []})
        self.send(id={}, result={"content": []})
        self.send(id=str(message["id"]) + "x", result={"content": []})
        self.send_text(message, "after the garbage")
        self.send_text(message, "a second answer")
        self.write_raw("bye\n")

    def tool_big(self, message: Message, megabytes: int = 1) -> None:
        self.send_text(message, "x" * (megabytes * 1_000_000))

    def tool_odd_result(self, message: Message, result: Any = None) -> None:
        self.send(id=message["id"], result=result)

    def tool_ask(self, message: Message) -> None:
        """Asks the client three things and answers with what it was told."""
        self.answers.clear()
        for method in ("ping", "sampling/createMessage", "roots/list"):
            self.awaiting[f"ask-{method}"] = message
            self.send(id=f"ask-{method}", method=method)

    def handle_answer(self, message: Message) -> None:
        call = self.awaiting.pop(message["id"], None)
        self.answers.append(message)
        if call is not None and not self.awaiting:
            self.send_result(call, content=[], structuredContent={"answers": self.answers})

    def answer_extra(self, message: Message, /, **arguments: Any) -> None:
        self.send_text(message, f"{message['params']['name']} {json.dumps(arguments)}")

    def refuse_tool(self, message: Message, /, **_: Any) -> None:
        self.fail(message, -32602, "Unknown tool")

    def tool_swap(self, message: Message, old: str, new: str = "", quietly: bool = False) -> None:
        """Has `new` (if any) in the place of its extra tool `old` from now on, and says so."""
        self.extra = [extra for extra in self.extra if extra["name"] != old]
        self.extra += [plain_tool(new)] if new else []
        if not quietly:
            self.send(method="notifications/tools/list_changed")
        self.send_text(message, "swapped")

    def tool_grow(self, message: Message, name: str = "grown", times: int = 1) -> None:
        """Has one tool more from now on, and says so as often as it is told to."""
        self.extra.append(plain_tool(name))
        for _ in range(times):
            self.send(method="notifications/tools/list_changed")
        self.send_text(message, "grown")

    def tool_environment(self, message: Message) -> None:
        self.send_result(message, content=[], structuredContent=dict(os.environ))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log")
    parser.add_argument("--mute", action="store_true")
    parser.add_argument("--mute-list", action="store_true")
    parser.add_argument("--modern", action="store_true")
    parser.add_argument("--refuse-initialize", type=int)
    parser.add_argument("--version")
    parser.add_argument("--page", type=int)
    parser.add_argument("--loop-cursor", action="store_true")
    parser.add_argument("--extra", nargs="*", default=[], help="further tools, by name")
    parser.add_argument("--odd-tools", action="store_true")
    parser.add_argument("--late-if", help="one tool more once this file exists")
    parser.add_argument("--swap-if", help="another definition of vendor once this file exists")
    parser.add_argument("--ignore-eof", action="store_true")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--exit-if", help="exit at once if this file exists")
    parser.add_argument("--exit", type=int, help="say so on stderr and exit at once")
    options = parser.parse_args()
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.exit_if and Path(options.exit_if).exists():
        options.exit = 4
    if options.exit is not None:
        Upstream(options).log({"pid": os.getpid()})
        sys.stderr.write("no licence found\n")
        raise SystemExit(options.exit)
    Upstream(options).serve()


if __name__ == "__main__":
    main()
