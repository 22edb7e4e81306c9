"""A scripted model API: a real HTTP server that streams the events of a message."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketAttribute

Event = dict[str, Any]
Pause = Callable[[], Awaitable[None]]
"""Stands between blocks: the model goes on once it returns."""

Message = Sequence[Event | Pause]
"""The blocks of one answer, in the form that they have in a finished message."""

HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
)


@dataclass
class ModelApi:
    """Answers the first request with the first message, and so on."""

    port: int
    script: list[Message]
    requests: list[Event] = field(default_factory=list[Event])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, stream: ByteStream) -> None:
        async with stream:
            self.requests.append(await _request(stream))
            await stream.send(HEAD.encode())
            index = 0
            for part in self.script[len(self.requests) - 1]:
                if callable(part):
                    await part()
                    continue
                for event in _events(index, part):
                    await _send(stream, event)
                index += 1
            await _send(stream, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
            await _send(stream, {"type": "message_stop"})
            await stream.send(b"0\r\n\r\n")


@asynccontextmanager
async def serve_model_api(*script: Message) -> AsyncGenerator[ModelApi, None]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    api = ModelApi(listener.extra(SocketAttribute.local_port), list(script))
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, api.serve)
        yield api
        tasks.cancel_scope.cancel()


def text(said: str) -> Event:
    return {"type": "text", "text": said}


def use(id: str, name: str, /, **given: Any) -> Event:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


async def _request(stream: ByteStream) -> Event:
    received = b""
    while b"\r\n\r\n" not in received:
        received += await stream.receive()
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [
        int(line.partition(":")[2])
        for line in head.decode().splitlines()
        if line.lower().startswith("content-length:")
    ]
    while len(body) < lengths[0]:
        body += await stream.receive()
    return json.loads(body)


def _events(index: int, block: Event) -> Iterator[Event]:
    """As the API writes a block: begun empty, filled in pieces, ended."""
    is_text = block["type"] == "text"
    begun: Event = {**block, **({"text": ""} if is_text else {"input": {}})}
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    whole = block["text"] if is_text else json.dumps(block["input"])
    for piece in (whole[:7], whole[7:]):
        delta = (
            {"type": "text_delta", "text": piece}
            if is_text
            else {"type": "input_json_delta", "partial_json": piece}
        )
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


async def _send(stream: ByteStream, event: Event) -> None:
    data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
    await stream.send(b"%x\r\n%s\r\n" % (len(data), data))
