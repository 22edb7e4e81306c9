"""The time limits of one request: in total, and without progress."""

import math
from collections.abc import Generator
from contextlib import contextmanager

import anyio


class IdleTimeout(TimeoutError):
    """The server reported no progress for too long."""


class Deadline:
    """Two limits in seconds. `pause` and `resume` stop both while the server waits for an answer."""

    def __init__(self, timeout: float, idle_timeout: float = math.inf) -> None:
        self._idle_timeout = idle_timeout
        self._scopes = (anyio.CancelScope(), anyio.CancelScope())
        self._remaining = (timeout, idle_timeout)

    @contextmanager
    def enforce(self) -> Generator[None]:
        """Cancel the block at a limit. Raises `TimeoutError`, or `IdleTimeout` without progress."""
        total, idle = self._scopes
        self.resume()
        with total, idle:
            yield
        if idle.cancelled_caught:
            raise IdleTimeout
        if total.cancelled_caught:
            raise TimeoutError

    def reset_idle(self) -> None:
        idle = self._scopes[1]
        if idle.deadline < math.inf:
            idle.deadline = anyio.current_time() + self._idle_timeout

    def pause(self) -> None:
        now = anyio.current_time()
        total, idle = self._scopes
        self._remaining = (total.deadline - now, idle.deadline - now)
        total.deadline = idle.deadline = math.inf

    def resume(self) -> None:
        now = anyio.current_time()
        for clock, left in zip(self._scopes, self._remaining, strict=True):
            clock.deadline = now + left
