"""What clients have not read yet: counted, bounded, and ended where a client reads no more."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import anyio

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_MEBIBYTE = 1024 * 1024
_GLANCE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class _Standing:
    """A connection as it was seen. Where it stays the same for too long, nobody is there."""

    unread: int
    served: object
    """The request being answered; None between requests."""

    @classmethod
    def of(cls, connection: "H11Protocol") -> "_Standing":
        cycle = cast("RequestResponseCycle | None", connection.cycle)
        idle = cycle is None or cycle.response_complete
        return cls(connection.transport.get_write_buffer_size(), None if idle else cycle)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: for a client that takes nothing of its answer, and for one that asks nothing."""

    stalled: float = 30
    silent: float = 120

    def limit(self, standing: _Standing) -> float:
        if standing.unread:
            return self.stalled
        return self.silent if standing.served is None else float("inf")


class Traffic:
    """The connections of one server. `room` is what a call awaits before it runs.

    The bytes are those in our own memory; what the operating system holds it bounds itself.
    """

    def __init__(self, unread: int = 32 * _MEBIBYTE, patience: Patience | None = None) -> None:
        self._unread = unread
        self._patience = patience or Patience()
        self._connections: set[H11Protocol] = set()
        self._seen: dict[H11Protocol, tuple[_Standing, float]] = {}

    def follow(self, server: "uvicorn.Server") -> None:
        self._connections = cast("set[H11Protocol]", server.server_state.connections)

    def waiting(self) -> int:
        """Bytes that all clients together have not read."""
        return sum(each.transport.get_write_buffer_size() for each in self._connections)

    async def room(self) -> None:
        """Waits while more than the bound is unread."""
        while self.waiting() > self._unread:  # noqa: ASYNC110  (transports tell nobody else)
            await anyio.sleep(_GLANCE_SECONDS)

    async def end_the_absent(self) -> None:
        """Ends connections at whose other end nobody seems to be. Runs until cancelled."""
        while True:
            await anyio.sleep(min(self._patience.stalled, self._patience.silent) / 5)
            now = anyio.current_time()
            self._seen = {each: self._look(each, now) for each in self._connections}
            for connection, (standing, since) in self._seen.items():
                if now - since > self._patience.limit(standing):
                    connection.transport.abort()

    def _look(self, connection: "H11Protocol", now: float) -> tuple[_Standing, float]:
        standing = _Standing.of(connection)
        before = self._seen.get(connection)
        return before if before is not None and before[0] == standing else (standing, now)
