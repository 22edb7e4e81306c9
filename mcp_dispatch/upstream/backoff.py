"""Delays before a failed server is restarted, and a circuit breaker for its calls."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# 2 ** 20 exceeds any sensible delay; the exponent must not grow with the failures.
_MAX_DOUBLINGS: Final = 20


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds, doubled from `initial_delay` to `max_delay`.

    A server that ran for `stable_uptime` starts again with the initial delay.
    """

    initial_delay: float = 0.5
    max_delay: float = 30.0
    stable_uptime: float = 60.0
    jitter: Callable[[], float] = random.random

    def count_failures(self, previous: int, uptime: float) -> int:
        """Return the number of failures in a row after one more, which came after `uptime` seconds."""
        return 1 if uptime >= self.stable_uptime else previous + 1

    def compute_delay(self, failures: int) -> float:
        """Return the doubled delay plus up to half of it, so that servers do not restart in step."""
        doubled = self.initial_delay * 2 ** min(failures - 1, _MAX_DOUBLINGS)
        return min(self.max_delay, doubled * (1 + self.jitter() / 2))


_MAX_FAILURES: Final = 5
_RETRY_INTERVAL: Final = 10.0


@dataclass(frozen=True, slots=True)
class CircuitLimits:
    """After `max_failures` in a row, calls trigger an attempt each `retry_interval` seconds."""

    max_failures: int = _MAX_FAILURES
    retry_interval: float = _RETRY_INTERVAL


class CircuitBreaker:
    """Opens after repeated failures; calls then trigger only one attempt per interval."""

    def __init__(self, limits: CircuitLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._attempted_at = 0.0
        self._down_since: float | None = None
        self.failures = 0

    def record_attempt(self) -> None:
        self._attempted_at = self._clock()

    def record_success(self) -> None:
        self._down_since = None

    def record_failure(self) -> None:
        if self._down_since is None:
            self._down_since = self._clock()

    @property
    def is_open(self) -> bool:
        return self.failures >= self._limits.max_failures

    @property
    def may_try(self) -> bool:
        """Whether a call may wait for the server, and trigger an attempt if it is down."""
        return not self.is_open or self._clock() - self._attempted_at >= self._limits.retry_interval

    def describe_outage(self) -> str:
        """Return duration and number of failures, as in "for 3 min, after 7 failures in a row"."""
        since = self._clock() if self._down_since is None else self._down_since
        return f"for {_format_duration(self._clock() - since)}, after {self.failures} failures in a row"


def _format_duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
