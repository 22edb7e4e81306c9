"""How long one request is waited for: all in all, and since its server was last heard of it."""

import math
from collections.abc import Generator
from contextlib import contextmanager

import anyio


class Silence(TimeoutError):
    """Nothing was heard of the request for too long."""


class Patience:
    """Seconds. `pause` and `go_on` stop and start both clocks, for what others take their time for."""

    def __init__(self, total: float, idle: float = math.inf) -> None:
        self._idle = idle
        self._clocks = (anyio.CancelScope(), anyio.CancelScope())
        self._left = (total, idle)

    @contextmanager
    def applied(self) -> Generator[None]:
        """Raises `TimeoutError`, and `Silence` where it was quiet for too long."""
        total, quiet = self._clocks
        self.go_on()
        with total, quiet:
            yield
        if quiet.cancelled_caught:
            raise Silence
        if total.cancelled_caught:
            raise TimeoutError

    def heard(self) -> None:
        quiet = self._clocks[1]
        if quiet.deadline < math.inf:
            quiet.deadline = anyio.current_time() + self._idle

    def pause(self) -> None:
        now = anyio.current_time()
        total, quiet = self._clocks
        self._left = (total.deadline - now, quiet.deadline - now)
        total.deadline = quiet.deadline = math.inf

    def go_on(self) -> None:
        now = anyio.current_time()
        for clock, left in zip(self._clocks, self._left, strict=True):
            clock.deadline = now + left
