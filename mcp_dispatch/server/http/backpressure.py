"""What clients have not read yet: counted, bounded, and ended where a client reads no more."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import anyio

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_MEBIBYTE = 1024 * 1024
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class _ConnectionState:
    """A connection as it was seen. Where it stays the same for too long, nobody is there."""

    unread_bytes: int
    active_cycle: object
    """The request being answered; None between requests."""

    @classmethod
    def from_connection(cls, connection: "H11Protocol") -> "_ConnectionState":
        cycle = cast("RequestResponseCycle | None", connection.cycle)
        idle = cycle is None or cycle.response_complete
        return cls(connection.transport.get_write_buffer_size(), None if idle else cycle)


@dataclass(frozen=True, slots=True)
class IdleTimeouts:
    """Seconds: for a client that takes nothing of its answer, and for one that asks nothing."""

    stalled: float = 30
    idle: float = 120

    def find_limit(self, state: _ConnectionState) -> float:
        if state.unread_bytes:
            return self.stalled
        return self.idle if state.active_cycle is None else float("inf")


class Backpressure:
    """The connections of one server. `room` is what a call awaits before it runs.

    The bytes are those in our own memory; what the operating system holds it bounds itself.
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
        """Bytes that all clients together have not read."""
        return sum(each.transport.get_write_buffer_size() for each in self._connections)

    async def wait_for_capacity(self) -> None:
        """Waits while more than the bound is unread."""
        while self.count_unread_bytes() > self._max_unread_bytes:  # noqa: ASYNC110  (transports tell nobody else)
            await anyio.sleep(_POLL_SECONDS)

    async def abort_idle_connections(self) -> None:
        """Ends connections at whose other end nobody seems to be. Runs until cancelled."""
        while True:
            await anyio.sleep(min(self._timeouts.stalled, self._timeouts.idle) / 5)
            now = anyio.current_time()
            self._states = {each: self._observe(each, now) for each in self._connections}
            for connection, (standing, since) in self._states.items():
                if now - since > self._timeouts.find_limit(standing):
                    connection.transport.abort()

    def _observe(self, connection: "H11Protocol", now: float) -> tuple[_ConnectionState, float]:
        standing = _ConnectionState.from_connection(connection)
        before = self._states.get(connection)
        return before if before is not None and before[0] == standing else (standing, now)
