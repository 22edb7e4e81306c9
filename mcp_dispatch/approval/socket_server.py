"""The server of the approvals socket, which terminals use to see and answer questions.

The socket is private, and processes that a server has started are rejected.
"""

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

from mcp_dispatch.approval.form import build_refusal
from mcp_dispatch.approval.peer_check import (
    PeerCheckError,
    PeerProcess,
    find_peer_problem,
    identify_peer,
)
from mcp_dispatch.approval.pending import PendingApprovals
from mcp_dispatch.approval.socket_protocol import (
    MAX_LINE_BYTES,
    encode_approval,
    generate_socket_path,
    list_server_pids,
    remove_stale_sockets,
    shorten_path,
)
from mcp_dispatch.model.approval import ApprovalScope, Approved, Declined
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire.codec import decode, encode

logger = logging.getLogger(__name__)

MAX_TERMINALS: Final = 16
SEND_TIMEOUT_SECONDS: Final = 5.0
_CHOICES: Final = {scope.value: scope for scope in ApprovalScope}
_CONNECTION_ERRORS: Final = (
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.IncompleteRead,
    anyio.DelimiterNotFound,
    anyio.EndOfStream,
    TimeoutError,
    OSError,
    ValueError,
)


class ApprovalServer:
    """Serves terminals as long as the MCP server runs."""

    def __init__(
        self,
        pending: PendingApprovals,
        run_directory: Path,
        find_workspace: Callable[[], Path | None],
    ) -> None:
        self._pending = pending
        self._run_directory = run_directory
        self._find_workspace = find_workspace
        self._connection_count = 0
        self._path: Path | None = None
        self._listener: SocketListener | None = None

    async def open(self) -> None:
        """Create the socket; connections wait until `serve` runs.

        A failure is logged, and `pending.reachable` stays False.
        """
        if not hasattr(socket, "AF_UNIX"):
            return
        try:
            remove_stale_sockets(self._run_directory)
            self._path = generate_socket_path(self._run_directory)
            with shorten_path(self._path) as name:
                self._listener = await anyio.create_unix_listener(name, mode=0o600)
        except OSError as error:
            logger.warning("`mcp-dispatch approvals` cannot reach this server: %s", error)
        self._pending.reachable = self._listener is not None

    async def serve(self) -> None:
        """Serve until cancelled, then remove the socket."""
        if self._listener is None or self._path is None:
            return
        try:
            async with self._listener:
                await self._listener.serve(self._accept)
        finally:
            self._pending.reachable = False
            with suppress(OSError):
                self._path.unlink()

    async def _accept(self, stream: SocketStream) -> None:
        try:
            async with stream:
                await self._admit(ApprovalConnection(stream))
        except Exception:  # a bug of ours ends this connection, not the server
            logger.exception("a terminal's connection failed")

    async def _admit(self, connection: "ApprovalConnection") -> None:
        problem = self._find_peer_problem(connection)
        if problem is None and self._connection_count >= MAX_TERMINALS:
            problem = "too many terminals are attached"
        if problem is not None:
            logger.warning("a process that wants to see questions is turned away: %s", problem)
            with suppress(*_CONNECTION_ERRORS):
                await connection.send({"refused": problem})
            return
        self._connection_count += 1
        try:
            await self._handle_requests(connection)
        finally:
            self._connection_count -= 1

    def _find_peer_problem(self, connection: "ApprovalConnection") -> str | None:
        try:
            return find_peer_problem(
                connection.identify_peer(), list_server_pids(self._run_directory) | {os.getpid()}
            )
        except PeerCheckError as reason:
            return f"it cannot be checked: {reason}"

    async def _handle_requests(self, connection: "ApprovalConnection") -> None:
        async with anyio.create_task_group() as tasks:

            async def send_updates() -> None:
                with suppress(*_CONNECTION_ERRORS):
                    await self._send_updates(connection)
                tasks.cancel_scope.cancel()

            with suppress(*_CONNECTION_ERRORS):
                async for request in connection.receive_requests():
                    if request.get("want") == "watch":
                        tasks.start_soon(send_updates)
                    else:
                        await connection.send(await self._respond(request, connection))
            tasks.cancel_scope.cancel()

    async def _respond(self, request: JsonObject, connection: "ApprovalConnection") -> JsonObject:
        match request.get("want"):
            case "list":
                return self._build_message()
            case "answer":
                # Checked again: the process may have been replaced since it connected.
                problem = self._find_peer_problem(connection) or await self._record_answer(request)
                return {"answered": request.get("id"), "problem": problem}
            case _:
                return {"refused": "the request was not understood"}

    async def _send_updates(self, connection: "ApprovalConnection") -> None:
        """Send the questions after each change; the terminal counts as attached meanwhile."""
        self._pending.terminal_count += 1
        try:
            while True:
                await connection.send(self._build_message())
                await self._pending.wait_for_change()
        finally:
            self._pending.terminal_count -= 1

    def _build_message(self) -> JsonObject:
        workspace = self._find_workspace()
        questions: list[Json] = [
            encode_approval(each, self._pending.measure_age(each))
            for each in self._pending.unanswered
        ]
        return {
            "server": os.getpid(),
            "workspace": None if workspace is None else str(workspace),
            "questions": questions,
        }

    async def _record_answer(self, request: JsonObject) -> str | None:
        id, choice = request.get("id"), request.get("choice")
        reply: Approved | Declined | None = None
        if choice == "deny":
            reply = build_refusal(request.get("reason"))
        elif isinstance(choice, str) and choice in _CHOICES:
            reply = Approved(_CHOICES[choice], by="terminal")
        if reply is None or not isinstance(id, str):
            return "the answer was not understood"
        return await self._pending.answer(id, reply)


class ApprovalConnection:
    """The connection of one terminal, with JSON lines in both directions."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)
        self._send_lock = anyio.Lock()
        self._peer: PeerProcess | None = None

    def identify_peer(self) -> PeerProcess:
        """Return the process that opened the connection. Raises `PeerCheckError`."""
        if self._peer is None:
            self._peer = identify_peer(self._stream.extra(SocketAttribute.raw_socket))
        return self._peer

    async def receive_requests(self) -> AsyncGenerator[JsonObject, None]:
        while True:
            request = decode(await self._lines.receive_until(b"\n", MAX_LINE_BYTES))
            yield request if isinstance(request, dict) else {}

    async def send(self, message: JsonObject) -> None:
        async with self._send_lock:
            with anyio.fail_after(SEND_TIMEOUT_SECONDS):
                await self._stream.send(encode(message) + b"\n")
