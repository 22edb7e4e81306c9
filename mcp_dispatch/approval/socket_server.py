"""Where terminals are served: a private Unix socket that shows the desk and takes answers, from
nobody that a server has started."""

import logging
import os
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_dispatch.approval.form import refusal
from mcp_dispatch.approval.peer_check import CannotTell, Peer, peer_of, why_unfit
from mcp_dispatch.approval.pending import Desk
from mcp_dispatch.approval.socket_protocol import (
    LONGEST_LINE,
    new_socket,
    remove_stale,
    servers_in,
    short_path,
    tell,
)
from mcp_dispatch.model.approval import Approved, Declined, Extent
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.codec import decode, encode

logger = logging.getLogger(__name__)

MOST_TERMINALS: Final = 16
SEND_SECONDS: Final = 5.0
_EXTENTS: Final = {extent.value: extent for extent in Extent}
_BROKEN: Final = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.IncompleteRead,
    anyio.DelimiterNotFound,
    anyio.EndOfStream,
    TimeoutError,
    OSError,
    ValueError,
)


class Counter:
    """Attends to terminals for as long as the server lives."""

    def __init__(self, desk: Desk, run: Path, workspace: Callable[[], Path | None]) -> None:
        self._desk = desk
        self._run = run
        self._workspace = workspace
        self._guests = 0
        self._path: Path | None = None
        self._listener: SocketListener | None = None

    async def open(self) -> None:
        """From here on a terminal that comes is heard once `attend` runs. Where there can be no
        socket, the log says why, and nobody is told to come."""
        if not hasattr(socket, "AF_UNIX"):
            return
        try:
            remove_stale(self._run)
            self._path = new_socket(self._run)
            with short_path(self._path) as name:
                self._listener = await anyio.create_unix_listener(name, mode=0o600)
        except OSError as error:
            logger.warning("`mcp-dispatch approvals` cannot reach this server: %s", error)
        self._desk.reachable = self._listener is not None

    async def attend(self) -> None:
        """For ever; then nobody can come any more."""
        if self._listener is None or self._path is None:
            return
        try:
            async with self._listener:
                await self._listener.serve(self._receive)
        finally:
            self._desk.reachable = False
            with suppress(OSError):
                self._path.unlink()

    async def _receive(self, stream: SocketStream) -> None:
        try:
            async with stream:
                await self._welcome(_Guest(stream))
        except Exception:  # a bug of ours ends this connection, not the server
            logger.exception("a terminal's connection failed")

    async def _welcome(self, guest: "_Guest") -> None:
        unfit = self._unfit(guest)
        if unfit is None and self._guests >= MOST_TERMINALS:
            unfit = "too many terminals are attached"
        if unfit is not None:
            logger.warning("a process that wants to see questions is turned away: %s", unfit)
            with suppress(*_BROKEN):
                await guest.send({"refused": unfit})
            return
        self._guests += 1
        try:
            await self._serve(guest)
        finally:
            self._guests -= 1

    def _unfit(self, guest: "_Guest") -> str | None:
        try:
            return why_unfit(guest.peer(), servers_in(self._run) | {os.getpid()})
        except CannotTell as reason:
            return f"it cannot be checked: {reason}"

    async def _serve(self, guest: "_Guest") -> None:
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                with suppress(*_BROKEN):
                    await self._watch(guest)
                tasks.cancel_scope.cancel()

            with suppress(*_BROKEN):
                async for request in guest.requests():
                    if request.get("want") == "watch":
                        tasks.start_soon(watch)
                    else:
                        await guest.send(await self._respond(request, guest))
            tasks.cancel_scope.cancel()

    async def _respond(self, request: JsonObject, guest: "_Guest") -> JsonObject:
        match request.get("want"):
            case "list":
                return self._shown()
            case "answer":
                # Asked again: the process that came in may be another by now.
                problem = self._unfit(guest) or await self._answer(request)
                return {"answered": request.get("id"), "problem": problem}
            case _:
                return {"refused": "the request was not understood"}

    async def _watch(self, guest: "_Guest") -> None:
        """The terminal is attached from here until its connection ends."""
        self._desk.terminals += 1
        try:
            while True:
                await guest.send(self._shown())
                await self._desk.changed()
        finally:
            self._desk.terminals -= 1

    def _shown(self) -> JsonObject:
        root = self._workspace()
        questions: list[Json] = [tell(each, self._desk.age(each)) for each in self._desk.open]
        return {
            "server": os.getpid(),
            "workspace": None if root is None else str(root),
            "questions": questions,
        }

    async def _answer(self, request: JsonObject) -> str | None:
        id, choice = request.get("id"), request.get("choice")
        reply: Approved | Declined | None = None
        if choice == "deny":
            reply = refusal(request.get("reason"))
        elif isinstance(choice, str) and choice in _EXTENTS:
            reply = Approved(_EXTENTS[choice], by="terminal")
        if reply is None or not isinstance(id, str):
            return "the answer was not understood"
        return await self._desk.answer(id, reply)


class _Guest:
    """One terminal's connection: JSON lines both ways."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)
        self._sending = anyio.Lock()
        self._came_as: Peer | None = None

    def peer(self) -> Peer:
        """Who it is, as it was when it came. Raises `CannotTell`."""
        if self._came_as is None:
            self._came_as = peer_of(self._stream.extra(SocketAttribute.raw_socket))
        return self._came_as

    async def requests(self) -> AsyncGenerator[JsonObject, None]:
        while True:
            request = decode(await self._lines.receive_until(b"\n", LONGEST_LINE))
            yield request if isinstance(request, dict) else {}

    async def send(self, message: JsonObject) -> None:
        async with self._sending:
            with anyio.fail_after(SEND_SECONDS):
                await self._stream.send(encode(message) + b"\n")
