"""How long one request is waited for: all in all, and since its server was last heard of it."""

import math
from collections.abc import Generator
from contextlib import contextmanager

import anyio


class IdleTimeout(TimeoutError):
    """Nothing was heard of the request for too long."""


class Deadline:
    """Seconds. `pause` and `go_on` stop and start both clocks, for what others take their time for."""

    def __init__(self, timeout: float, idle_timeout: float = math.inf) -> None:
        self._idle_timeout = idle_timeout
        self._scopes = (anyio.CancelScope(), anyio.CancelScope())
        self._remaining = (timeout, idle_timeout)

    @contextmanager
    def enforce(self) -> Generator[None]:
        """Raises `TimeoutError`, and `Silence` where it was quiet for too long."""
        total, quiet = self._scopes
        self.resume()
        with total, quiet:
            yield
        if quiet.cancelled_caught:
            raise IdleTimeout
        if total.cancelled_caught:
            raise TimeoutError

    def reset_idle(self) -> None:
        quiet = self._scopes[1]
        if quiet.deadline < math.inf:
            quiet.deadline = anyio.current_time() + self._idle_timeout

    def pause(self) -> None:
        now = anyio.current_time()
        total, quiet = self._scopes
        self._remaining = (total.deadline - now, quiet.deadline - now)
        total.deadline = quiet.deadline = math.inf

    def resume(self) -> None:
        now = anyio.current_time()
        for clock, left in zip(self._scopes, self._remaining, strict=True):
            clock.deadline = now + left
