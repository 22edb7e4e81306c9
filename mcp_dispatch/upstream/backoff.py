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
