"""A small MCP server on stdio for demonstrations: `python -m mcp_dispatch.demo.upstream`.

It needs only the standard library, so it starts quickly and can stand for any third-party server.
"""

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_dispatch.model.json import Json, JsonObject

PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
SECONDS_PER_COUNT = 0.2


class RpcError(Exception):
    """A request that gets a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ToolFailed(Exception):
    """A tool that answers with `isError`."""


@dataclass(frozen=True)
class DemoCall:
    """One running `tools/call`: its arguments and its way to send notifications."""

    arguments: "JsonObject"
    token: "Json"
    cancelled: threading.Event
    notify: Callable[[str, "JsonObject"], None]

    def read_integer(self, key: str, default: int, low: int, high: int) -> int:
        value = self.arguments.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ToolFailed(f"{key} must be a whole number from {low} to {high}, got {value!r}")
        return value


@dataclass
class NoteStore:
    """The notes of `remember`, kept as long as the process runs."""

    notes: list[str] = field(default_factory=lambda: [])

    def add_note(self, call: DemoCall) -> "JsonObject":
        note = call.arguments.get("note")
        if not isinstance(note, str) or not note:
            raise ToolFailed("note must be a text that is not empty")
        self.notes.append(note)
        return _to_text_result(f"Noted. {len(self.notes)} note(s) so far.")

    def list_notes(self, _: DemoCall) -> "JsonObject":
        lines = [f"{number}. {note}" for number, note in enumerate(self.notes, 1)]
        return _to_text_result("\n".join(lines) or "No notes yet. Make one with remember.")


def roll_dice(call: DemoCall) -> "JsonObject":
    import random  # costs a third of the start-up, and only this tool needs it

    sides = call.read_integer("sides", 6, 2, 1000)
    count = call.read_integer("count", 1, 1, 100)
    rolls: list[Json] = [random.randint(1, sides) for _ in range(count)]
    total = sum(roll for roll in rolls if isinstance(roll, int))
    answer: JsonObject = {"rolls": rolls, "total": total}
    return {**_to_text_result(json.dumps(answer)), "structuredContent": answer}


def count_slowly(call: DemoCall) -> "JsonObject":
    goal = call.read_integer("to", 5, 1, 100)
    for number in range(1, goal + 1):
        if call.cancelled.wait(SECONDS_PER_COUNT):
            return _to_text_result(f"Stopped at {number - 1}.")
        if call.token is not None:
            step: JsonObject = {"progressToken": call.token, "progress": number, "total": goal}
            call.notify("notifications/progress", {**step, "message": f"counted to {number}"})
    return _to_text_result(f"Counted to {goal}.")


def _to_text_result(text: str) -> "JsonObject":
    return {"content": [{"type": "text", "text": text}]}


def _build_schema(required: "list[Json]", **properties: "Json") -> "JsonObject":
    schema: JsonObject = {"type": "object", "properties": properties}
    return {**schema, "required": required, "additionalProperties": False}


def _build_number_schema(description: str, default: int, low: int, high: int) -> "JsonObject":
    bounds: JsonObject = {"minimum": low, "maximum": high, "default": default}
    return {"type": "integer", "description": description, **bounds}


DEFINITIONS: "tuple[JsonObject, ...]" = (
    {
        "name": "roll_dice",
        "description": "Roll dice and return each roll and their total.",
        "inputSchema": _build_schema(
            [],
            sides=_build_number_schema("How many sides each die has.", 6, 2, 1000),
            count=_build_number_schema("How many dice to roll.", 1, 1, 100),
        ),
        "outputSchema": _build_schema(
            ["rolls", "total"],
            rolls={"type": "array", "items": {"type": "integer"}},
            total={"type": "integer"},
        ),
        "annotations": {"title": "Roll dice", "readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "remember",
        "description": "Keep a note until the server stops. Read the notes back with recall.",
        "inputSchema": _build_schema(
            ["note"],
            note={"type": "string", "description": "What to remember.", "minLength": 1},
        ),
        "annotations": {"title": "Remember", "readOnlyHint": False, "destructiveHint": False},
    },
    {
        "name": "recall",
        "description": "List the notes made with remember, oldest first.",
        "inputSchema": _build_schema([]),
        "annotations": {"title": "Recall", "readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "count_slowly",
        "description": "Count from 1 to a number, five a second, reporting progress at each step.",
        "inputSchema": _build_schema(
            [], to=_build_number_schema("The number to count to.", 5, 1, 100)
        ),
        "annotations": {"title": "Count slowly", "readOnlyHint": True, "openWorldHint": False},
    },
)


class DemoServer:
    """Answers requests; each tool call runs in a thread, so that it can be cancelled."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._write_lock = threading.Lock()
        self._running: dict[Json, threading.Event] = {}
        notebook = NoteStore()
        self._tools: dict[str, Callable[[DemoCall], JsonObject]] = {
            "roll_dice": roll_dice,
            "remember": notebook.add_note,
            "recall": notebook.list_notes,
            "count_slowly": count_slowly,
        }

    def receive(self, line: str) -> None:
        try:
            message: Json = json.loads(line)
        except ValueError:
            self._refuse(None, RpcError(-32700, "Parse error"))
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return
        if isinstance(message.get("id"), str | int):
            self._answer(message)
        elif message["method"] == "notifications/cancelled":
            self._cancel(_read_params(message).get("requestId"))

    def stop(self) -> None:
        for cancelled in tuple(self._running.values()):
            cancelled.set()

    def _answer(self, message: "JsonObject") -> None:
        try:
            if message["method"] == "tools/call":
                self._start(message["id"], _read_params(message))
            else:
                self._send({"id": message["id"], "result": self._build_result(message)})
        except RpcError as error:
            self._refuse(message["id"], error)

    def _build_result(self, message: "JsonObject") -> "JsonObject":
        match message["method"]:
            case "initialize":
                return _build_initialize_result(_read_params(message).get("protocolVersion"))
            case "ping":
                return {}
            case "tools/list":
                return {"tools": list(DEFINITIONS)}
            case method:
                raise RpcError(-32601, f"Method not found: {method}")

    def _start(self, request_id: "Json", params: "JsonObject") -> None:
        tool = self._tools.get(str(params.get("name")))
        if tool is None:
            raise RpcError(-32602, f"Unknown tool: {params.get('name')}")
        arguments, meta = params.get("arguments"), params.get("_meta")
        call = DemoCall(
            arguments if isinstance(arguments, dict) else {},
            meta.get("progressToken") if isinstance(meta, dict) else None,
            threading.Event(),
            self._notify,
        )
        self._running[request_id] = call.cancelled
        threading.Thread(target=self._run, args=(request_id, tool, call)).start()

    def _run(
        self, request_id: "Json", tool: "Callable[[DemoCall], JsonObject]", call: DemoCall
    ) -> None:
        try:
            result = tool(call)
        except ToolFailed as error:
            result: JsonObject = {**_to_text_result(str(error)), "isError": True}
        del self._running[request_id]
        if not call.cancelled.is_set():
            self._send({"id": request_id, "result": result})

    def _cancel(self, request_id: "Json") -> None:
        if isinstance(request_id, int | str) and request_id in self._running:
            self._running[request_id].set()

    def _notify(self, method: str, params: "JsonObject") -> None:
        self._send({"method": method, "params": params})

    def _refuse(self, request_id: "Json", error: RpcError) -> None:
        self._send({"id": request_id, "error": {"code": error.code, "message": str(error)}})

    def _send(self, message: "JsonObject") -> None:
        with self._write_lock:
            self._write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def _build_initialize_result(requested_version: "Json") -> "JsonObject":
    return {
        "protocolVersion": requested_version
        if requested_version in PROTOCOL_VERSIONS
        else PROTOCOL_VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "mcp-dispatch-demo", "version": "1.0.0"},
        "instructions": "Dice, notes and slow counting, for trying things out.",
    }


def _read_params(message: "JsonObject") -> "JsonObject":
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def main() -> None:
    def write(text: str) -> None:
        sys.stdout.buffer.write(text.encode("utf-8"))
        sys.stdout.buffer.flush()

    server = DemoServer(write)
    for line in sys.stdin.buffer:
        server.receive(line.decode("utf-8", "replace"))
    server.stop()


if __name__ == "__main__":
    main()
