"""Limits on responses that clients have not read, and the end of connections without activity."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import anyio

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_MEBIBYTE: Final = 1024 * 1024
_POLL_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class _ConnectionState:
    """An observation of a connection. If it stays equal for too long, the client is absent."""

    unread_bytes: int
    active_cycle: object
    """The request that is being answered; None between requests."""

    @classmethod
    def from_connection(cls, connection: "H11Protocol") -> "_ConnectionState":
        cycle = cast("RequestResponseCycle | None", connection.cycle)
        is_idle = cycle is None or cycle.response_complete
        return cls(connection.transport.get_write_buffer_size(), None if is_idle else cycle)


@dataclass(frozen=True, slots=True)
class IdleTimeouts:
    """Seconds until a connection is ended."""

    stalled: float = 30
    """For a client that reads nothing of its response."""

    idle: float = 120
    """For a client that sends no request."""

    def find_limit(self, state: _ConnectionState) -> float:
        if state.unread_bytes:
            return self.stalled
        return self.idle if state.active_cycle is None else float("inf")


class Backpressure:
    """The connections of one server. A call awaits `wait_for_capacity` before it runs.

    Only bytes in our own memory count; the operating system limits its buffers itself.
    """

    def __init__(
        self, max_unread_bytes: int = 32 * _MEBIBYTE, timeouts: IdleTimeouts | None = None
    ) -> None:
        self._max_unread_bytes = max_unread_bytes
        self._timeouts = timeouts or IdleTimeouts()
        self._connections: set[H11Protocol] = set()
        self._states: dict[H11Protocol, tuple[_ConnectionState, float]] = {}

    def watch(self, server: "uvicorn.Server") -> None:
        self._connections = cast("set[H11Protocol]", server.server_state.connections)

    def count_unread_bytes(self) -> int:
        """Return the bytes that all clients together have not read."""
        return sum(each.transport.get_write_buffer_size() for each in self._connections)

    async def wait_for_capacity(self) -> None:
        """Wait while more than the maximum is unread."""
        while self.count_unread_bytes() > self._max_unread_bytes:  # noqa: ASYNC110  (no event exists)
            await anyio.sleep(_POLL_SECONDS)

    async def abort_idle_connections(self) -> None:
        """Abort connections whose client is absent. Runs until cancelled."""
        while True:
            await anyio.sleep(min(self._timeouts.stalled, self._timeouts.idle) / 5)
            now = anyio.current_time()
            self._states = {each: self._observe(each, now) for each in self._connections}
            for connection, (state, since) in self._states.items():
                if now - since > self._timeouts.find_limit(state):
                    connection.transport.abort()

    def _observe(self, connection: "H11Protocol", now: float) -> tuple[_ConnectionState, float]:
        """Return the state of the connection and since when it has been the same."""
        state = _ConnectionState.from_connection(connection)
        before = self._states.get(connection)
        return before if before is not None and before[0] == state else (state, now)
