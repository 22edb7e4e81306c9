"""Requests whose clients are expected back with answers: each state works once, for one request."""

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from mcp_dispatch.model.calls import Review
from mcp_dispatch.model.client import Rest
from mcp_dispatch.model.json import Json

PARKED_SECONDS = 600.0
PARKED_AT_MOST = 100
"""Of one scope. The oldest gives way."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What goes on, and what hooks had said of it before it began."""

    rest: Rest
    review: Review


class Rests:
    """Those of one scope."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._parked: dict[str, tuple[str, float, Waiting]] = {}

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, request: Json, waiting: Waiting) -> str:
        """`request` is what the client has to send again, word for word."""
        self._make_room()
        state = secrets.token_urlsafe(24)
        self._parked[state] = (_identity(request), self._clock() + PARKED_SECONDS, waiting)
        return state

    def take(self, state: str, request: Json) -> Waiting | None:
        identity, until, waiting = self._parked.pop(state, ("", 0.0, None))
        if waiting is None:
            return None
        if identity == _identity(request) and self._clock() < until:
            return waiting
        waiting.rest.drop()
        return None

    def clear(self) -> None:
        """Nobody is left to come back."""
        while self._parked:
            self._drop(next(iter(self._parked)))

    def _make_room(self) -> None:
        now = self._clock()
        for state in [key for key, (_, until, _) in self._parked.items() if until <= now]:
            self._drop(state)
        while len(self._parked) >= PARKED_AT_MOST:
            self._drop(next(iter(self._parked)))

    def _drop(self, state: str) -> None:
        self._parked.pop(state)[2].rest.drop()


def _identity(request: Json) -> str:
    """Compared as text: 1, 1.0 and true are equal in Python and not in JSON."""
    return json.dumps(request, sort_keys=True)
