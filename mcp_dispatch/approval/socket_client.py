"""The terminal's side of the sockets: find the servers of this user, see what they ask, answer."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_dispatch.approval.peer_check import CannotTell, peer_of, why_unfit
from mcp_dispatch.approval.socket_protocol import LONGEST_LINE, Told, heard, server_of, short_path
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.wire.codec import decode, encode

SECONDS: Final = 10.0
"""How long a server may take for one answer."""


class Unreachable(Exception):
    """Nobody listens there, or nobody to be trusted: the text says why."""


class Line:
    """A connection to one server."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)

    async def questions(self) -> list[Told]:
        """What is asked right now. Raises `Unreachable`."""
        with _bounded():
            await self._send({"want": "list"})
            return _questions(await self._receive())

    async def watch(self) -> AsyncGenerator[list[Told], None]:
        """What is asked, now and after each change; from here on this terminal is attached."""
        await self._send({"want": "watch"})
        while True:
            message = await self._receive()
            if "answered" not in message:
                yield _questions(message)

    async def answer(self, id: str, choice: str, reason: str = "") -> str | None:
        """Why the answer does not count; None where it does. Not for a line that watches."""
        with _bounded():
            request: JsonObject = {"want": "answer", "id": id, "choice": choice, "reason": reason}
            await self._send(request)
            reply = await self._receive()
        problem = reply.get("problem", reply.get("refused"))
        return None if problem is None else str(problem)

    async def _send(self, message: JsonObject) -> None:
        try:
            await self._stream.send(encode(message) + b"\n")
        except (anyio.BrokenResourceError, OSError) as error:
            raise Unreachable("it has ended") from error

    async def _receive(self) -> JsonObject:
        try:
            message = decode(await self._lines.receive_until(b"\n", LONGEST_LINE * 10))
        except (anyio.IncompleteRead, anyio.BrokenResourceError, OSError) as error:
            raise Unreachable("it has ended") from error
        except (anyio.DelimiterNotFound, ValueError) as error:
            raise Unreachable("it does not speak our language") from error
        return message if isinstance(message, dict) else {}


@asynccontextmanager
async def line_to(path: Path) -> AsyncGenerator[Line, None]:
    """Raises `Unreachable`."""
    try:
        with short_path(path) as name:
            stream = await anyio.connect_unix(name)
    except OSError as error:
        raise Unreachable(error.strerror or str(error)) from error
    async with stream:
        _insist_on_a_server(stream, path)
        yield Line(stream)


def _insist_on_a_server(stream: SocketStream, path: Path) -> None:
    """What a server has started could pose as one, and have a person read what it likes."""
    try:
        peer = peer_of(stream.extra(SocketAttribute.raw_socket))
    except CannotTell as reason:
        raise Unreachable(f"it cannot be checked: {reason}") from reason
    unfit = why_unfit(peer, ())
    if unfit is None and peer.pid != server_of(path):
        unfit = f"the socket is named after another process than {peer.pid}"
    if unfit is not None:
        raise Unreachable(unfit)


@contextmanager
def _bounded() -> Generator[None]:
    try:
        with anyio.fail_after(SECONDS):
            yield
    except TimeoutError as error:
        raise Unreachable(f"it did not answer within {SECONDS:g} seconds") from error


def _questions(message: JsonObject) -> list[Told]:
    if "refused" in message:
        raise Unreachable(str(message["refused"]))
    try:
        return heard(message)
    except (KeyError, TypeError) as error:
        raise Unreachable("it does not speak our language") from error
