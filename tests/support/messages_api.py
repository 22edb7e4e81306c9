"""A Messages API on loopback that plays a script: each request gets the next turn of the model."""

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Block = dict[str, Any]


def says(text: str) -> Block:
    return {"type": "text", "text": text}


def uses(name: str, **input: Any) -> Block:
    return {"type": "tool_use", "id": f"toolu_{name[-40:]}", "name": name, "input": input}


class MessagesApi:
    """`requests` are the bodies that asked for a turn of the script."""

    def __init__(self, script: Sequence[Block]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.elsewhere: list[str] = []
        """What was asked of this server as a proxy, to be fetched from somewhere else."""

        self._script = list(script)
        self._lock = threading.Lock()

    def turn(self, body: dict[str, Any]) -> Block:
        """Requests without tools are for titles and summaries, and are no part of the script."""
        with self._lock:
            if not body.get("tools"):
                return says("ok")
            self.requests.append(body)
            at = len(self.requests) - 1
            return self._script[at] if at < len(self._script) else says("the script is over")

    def tools_of(self, request: int) -> list[str]:
        return [tool["name"] for tool in self.requests[request]["tools"]]

    def results_in(self, request: int) -> list[Block]:
        """The tool results that came with a request, newest last."""
        found: list[Block] = []
        for message in self.requests[request]["messages"]:
            content: str | list[Block] = message["content"]
            if not isinstance(content, str):
                found += [block for block in content if block["type"] == "tool_result"]
        return found


@contextmanager
def serve_messages_api(script: Sequence[Block]) -> Generator[tuple[MessagesApi, str]]:
    """The played script and its address."""
    api = MessagesApi(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.path.startswith("/v1/messages/count_tokens"):
                self._json({"input_tokens": 1})
            elif self.path.startswith("/v1/messages"):
                body = json.loads(raw)
                message = _message(api.turn(body), str(body.get("model")))
                self._stream(message) if body.get("stream") else self._json(message)
            else:
                self._json({})

        def do_GET(self) -> None:
            self._json({})

        def do_HEAD(self) -> None:
            self._json({})

        def do_CONNECT(self) -> None:
            api.elsewhere.append(self.path)
            self.send_error(403)

        def _json(self, value: object) -> None:
            self._send("application/json", json.dumps(value).encode())

        def _stream(self, message: Block) -> None:
            events = "".join(
                f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                for event in _events(message)
            )
            self._send("text/event-stream", events.encode())

        def _send(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Not on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield api, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _message(block: Block, model: str) -> Block:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
        "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _events(message: Block) -> list[Block]:
    block: Block = message["content"][0]
    if block["type"] == "text":
        start: Block = {**block, "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    opening: Block = {**message, "content": [], "stop_reason": None}
    return [
        {"type": "message_start", "message": opening},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
