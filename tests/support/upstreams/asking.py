"""An upstream that asks before it answers, in the way of either era: `asking.py LOG [--modern]`.

`greet` asks for a name and a colour and says both; `ponder` asks and then never answers; `roots`
answers with the roots that it is told. What it receives is appended to LOG, one line each.
"""

import json
import sys
from pathlib import Path
from typing import Any

Message = dict[str, Any]

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("greet", "ponder", "roots")]
FIELDS = ("name", "colour")


def build_question(field: str) -> Message:
    schema = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    return {"message": f"Your {field}?", "requestedSchema": schema}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def build_text(text: str) -> Message:
    return {"resultType": "complete", "content": [{"type": "text", "text": text}]}


def as_modern(message: Message) -> Message | None:
    """One question in each round; what was answered before is in the state."""
    params = message["params"]
    answers: list[str] = json.loads(params.get("requestState", "[]"))
    for field, response in params.get("inputResponses", {}).items():
        answers.append(response["content"][field])
    if len(answers) == len(FIELDS):
        return build_text(" ".join(answers))
    field = FIELDS[len(answers)]
    asked = {field: {"method": "elicitation/create", "params": build_question(field)}}
    state = json.dumps(answers)
    return {"resultType": "input_required", "inputRequests": asked, "requestState": state}


class HandshakeServer:
    """A call that waits for the answers to its questions; one at a time is enough here."""

    def __init__(self) -> None:
        self.call: Message = {}
        self.answers: list[str] = []

    def begin(self, message: Message) -> None:
        self.call, self.answers = message, []
        if message["params"]["name"] == "roots":
            send(id="roots", method="roots/list")
        else:
            self.ask()

    def ask(self) -> None:
        field = FIELDS[len(self.answers)]
        send(id=field, method="elicitation/create", params=build_question(field))

    def handle_answer(self, message: Message) -> None:
        result = message.get("result", {})
        if message["id"] == "roots":
            uris = [root["uri"] for root in result["roots"]]
            send(id=self.call["id"], result=build_text(" ".join(uris)))
            return
        self.answers.append(result["content"][message["id"]])
        if self.call["params"]["name"] == "ponder":
            return
        if len(self.answers) < len(FIELDS):
            self.ask()
        else:
            send(id=self.call["id"], result=build_text(" ".join(self.answers)))


def answer_handshake(method: str, *, modern: bool) -> Message | None:
    capabilities: Message = {"tools": {}}
    if method == "initialize" and not modern:
        info = {"name": "asking", "version": "1"}
        version = {"protocolVersion": "2025-11-25", "serverInfo": info}
        return {**version, "capabilities": capabilities}
    if method == "server/discover" and modern:
        versions = {"supportedVersions": ["2026-07-28"]}
        return {"resultType": "complete", **versions, "capabilities": capabilities}
    return {"resultType": "complete", "tools": TOOLS} if method == "tools/list" else None


def main() -> None:
    log, modern, older = Path(sys.argv[1]), "--modern" in sys.argv, HandshakeServer()
    for line in sys.stdin:
        with log.open("a", encoding="utf-8") as file:
            file.write(line)
        message = json.loads(line)
        method = message.get("method")
        if method is None:
            older.handle_answer(message)
        elif method == "tools/call" and modern:
            send(id=message["id"], result=as_modern(message))
        elif method == "tools/call":
            older.begin(message)
        elif "id" in message:
            result = answer_handshake(method, modern=modern)
            error = {"code": -32601, "message": "Method not found"}
            send(id=message["id"], **({"result": result} if result else {"error": error}))


if __name__ == "__main__":
    main()
