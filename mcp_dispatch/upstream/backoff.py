"""How long to wait before a server that went down is started again."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# 2 ** 20 is past any sensible longest wait; the exponent must not grow with the failures.
_MAX_DOUBLINGS: Final = 20


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds. Doubles from `first` to `longest`; a server that lived `stable` begins anew."""

    initial_delay: float = 0.5
    max_delay: float = 30.0
    stable_uptime: float = 60.0
    jitter: Callable[[], float] = random.random

    def count_failures(self, previous: int, uptime: float) -> int:
        """The count of failures in a row, once more has ended after `lived` seconds."""
        return 1 if uptime >= self.stable_uptime else previous + 1

    def compute_delay(self, failures: int) -> float:
        """Up to half as much again as the doubled wait, so that servers do not start in step."""
        doubled = self.initial_delay * 2 ** min(failures - 1, _MAX_DOUBLINGS)
        return min(self.max_delay, doubled * (1 + self.jitter() / 2))


_MAX_FAILURES: Final = 5
_RETRY_INTERVAL: Final = 10.0


@dataclass(frozen=True, slots=True)
class CircuitLimits:
    """Failures in a row, and seconds between the tries that calls may ask for after them."""

    max_failures: int = _MAX_FAILURES
    retry_interval: float = _RETRY_INTERVAL


class CircuitBreaker:
    """Open after repeated failures. Then a call has the server tried only once per interval."""

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
        """Whether a call may wait for the server, and have it tried if it is down."""
        return not self.is_open or self._clock() - self._attempted_at >= self._limits.retry_interval

    def describe_outage(self) -> str:
        """How long it has been down and how often it failed, as in "for 3 min, after 7 failures"."""
        since = self._clock() if self._down_since is None else self._down_since
        return f"for {_format_duration(self._clock() - since)}, after {self.failures} failures in a row"


def _format_duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
