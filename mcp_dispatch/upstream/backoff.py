"""How long to wait before a server that went down is started again."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# 2 ** 20 is past any sensible longest wait; the exponent must not grow with the failures.
_MOST_DOUBLINGS: Final = 20


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds. Doubles from `first` to `longest`; a server that lived `stable` begins anew."""

    first: float = 0.5
    longest: float = 30.0
    stable: float = 60.0
    jitter: Callable[[], float] = random.random

    def failures(self, before: int, lived: float) -> int:
        """The count of failures in a row, once more has ended after `lived` seconds."""
        return 1 if lived >= self.stable else before + 1

    def delay(self, failures: int) -> float:
        """Up to half as much again as the doubled wait, so that servers do not start in step."""
        doubled = self.first * 2 ** min(failures - 1, _MOST_DOUBLINGS)
        return min(self.longest, doubled * (1 + self.jitter() / 2))


_TOLERATED: Final = 5
_INTERVAL: Final = 10.0


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Failures in a row, and seconds between the tries that calls may ask for after them."""

    failures: int = _TOLERATED
    interval: float = _INTERVAL


class Circuit:
    """Open after repeated failures. Then a call has the server tried only once per interval."""

    def __init__(self, tolerance: Tolerance, clock: Callable[[], float]) -> None:
        self._tolerance = tolerance
        self._clock = clock
        self._tried_at = 0.0
        self._down_since: float | None = None
        self.failures = 0

    def trying(self) -> None:
        self._tried_at = self._clock()

    def up(self) -> None:
        self._down_since = None

    def down(self) -> None:
        if self._down_since is None:
            self._down_since = self._clock()

    @property
    def open(self) -> bool:
        return self.failures >= self._tolerance.failures

    @property
    def may_try(self) -> bool:
        """Whether a call may wait for the server, and have it tried if it is down."""
        return not self.open or self._clock() - self._tried_at >= self._tolerance.interval

    def story(self) -> str:
        """How long it has been down and how often it failed, as in "for 3 min, after 7 failures"."""
        since = self._clock() if self._down_since is None else self._down_since
        return f"for {_duration(self._clock() - since)}, after {self.failures} failures in a row"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
