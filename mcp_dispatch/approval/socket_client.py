"""The client of the approvals socket: lists, watches and answers the questions of one server."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_dispatch.approval.peer_check import PeerCheckError, find_peer_problem, identify_peer
from mcp_dispatch.approval.socket_protocol import (
    MAX_LINE_BYTES,
    ApprovalMessage,
    decode_approvals,
    parse_server_pid,
    shorten_path,
)
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.wire.codec import decode, encode

REPLY_TIMEOUT_SECONDS: Final = 10.0
"""How long a server may take for one response."""


class ApprovalServerUnreachable(Exception):
    """No server listens on the socket, or the process is not trusted. The message says why."""


class ApprovalClient:
    """A connection to one server."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)

    async def list_pending(self) -> list[ApprovalMessage]:
        """Return the current questions. Raises `ApprovalServerUnreachable`."""
        with _enforce_timeout():
            await self._send({"want": "list"})
            return _parse_messages(await self._receive())

    async def watch(self) -> AsyncGenerator[list[ApprovalMessage], None]:
        """Yield the questions, now and after each change. The terminal is attached meanwhile."""
        await self._send({"want": "watch"})
        while True:
            message = await self._receive()
            if "answered" not in message:
                yield _parse_messages(message)

    async def answer(self, id: str, choice: str, reason: str = "") -> str | None:
        """Send an answer. Return why it is rejected, or None if it is accepted.

        Must not be called on a connection that watches.
        """
        with _enforce_timeout():
            request: JsonObject = {"want": "answer", "id": id, "choice": choice, "reason": reason}
            await self._send(request)
            reply = await self._receive()
        problem = reply.get("problem", reply.get("refused"))
        return None if problem is None else str(problem)

    async def _send(self, message: JsonObject) -> None:
        try:
            await self._stream.send(encode(message) + b"\n")
        except (anyio.BrokenResourceError, OSError) as error:
            raise ApprovalServerUnreachable("it has ended") from error

    async def _receive(self) -> JsonObject:
        try:
            message = decode(await self._lines.receive_until(b"\n", MAX_LINE_BYTES * 10))
        except (anyio.IncompleteRead, anyio.BrokenResourceError, OSError) as error:
            raise ApprovalServerUnreachable("it has ended") from error
        except (anyio.DelimiterNotFound, ValueError) as error:
            raise ApprovalServerUnreachable("it does not speak our language") from error
        return message if isinstance(message, dict) else {}


@asynccontextmanager
async def connect_to_server(path: Path) -> AsyncGenerator[ApprovalClient, None]:
    """Connect to the socket of a server. Raises `ApprovalServerUnreachable`."""
    try:
        with shorten_path(path) as name:
            stream = await anyio.connect_unix(name)
    except OSError as error:
        raise ApprovalServerUnreachable(error.strerror or str(error)) from error
    async with stream:
        _verify_server(stream, path)
        yield ApprovalClient(stream)


def _verify_server(stream: SocketStream, path: Path) -> None:
    """Reject a process that a server has started: it could show a person false questions."""
    try:
        peer = identify_peer(stream.extra(SocketAttribute.raw_socket))
    except PeerCheckError as reason:
        raise ApprovalServerUnreachable(f"it cannot be checked: {reason}") from reason
    problem = find_peer_problem(peer, ())
    if problem is None and peer.pid != parse_server_pid(path):
        problem = f"the socket is named after another process than {peer.pid}"
    if problem is not None:
        raise ApprovalServerUnreachable(problem)


@contextmanager
def _enforce_timeout() -> Generator[None]:
    try:
        with anyio.fail_after(REPLY_TIMEOUT_SECONDS):
            yield
    except TimeoutError as error:
        raise ApprovalServerUnreachable(
            f"it did not answer within {REPLY_TIMEOUT_SECONDS:g} seconds"
        ) from error


def _parse_messages(message: JsonObject) -> list[ApprovalMessage]:
    if "refused" in message:
        raise ApprovalServerUnreachable(str(message["refused"]))
    try:
        return decode_approvals(message)
    except (KeyError, TypeError) as error:
        raise ApprovalServerUnreachable("it does not speak our language") from error
