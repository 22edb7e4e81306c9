"""Requests whose clients are expected back with answers: each state works once, for one request."""

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from mcp_dispatch.model.calls import PreHookResult
from mcp_dispatch.model.client import Continuation
from mcp_dispatch.model.json import Json

PENDING_SECONDS = 600.0
MAX_PENDING = 100
"""Of one scope. The oldest gives way."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """What goes on, and what hooks had said of it before it began."""

    continuation: Continuation
    review: PreHookResult


class PendingRequests:
    """Those of one scope."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pending: dict[str, tuple[str, float, PendingRequest]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, request: Json, pending: PendingRequest) -> str:
        """`request` is what the client has to send again, word for word."""
        self._evict()
        state = secrets.token_urlsafe(24)
        self._pending[state] = (
            _serialize_request(request),
            self._clock() + PENDING_SECONDS,
            pending,
        )
        return state

    def pop(self, state: str, request: Json) -> PendingRequest | None:
        identity, until, waiting = self._pending.pop(state, ("", 0.0, None))
        if waiting is None:
            return None
        if identity == _serialize_request(request) and self._clock() < until:
            return waiting
        waiting.continuation.drop()
        return None

    def clear(self) -> None:
        """Nobody is left to come back."""
        while self._pending:
            self._drop(next(iter(self._pending)))

    def _evict(self) -> None:
        now = self._clock()
        for state in [key for key, (_, until, _) in self._pending.items() if until <= now]:
            self._drop(state)
        while len(self._pending) >= MAX_PENDING:
            self._drop(next(iter(self._pending)))

    def _drop(self, state: str) -> None:
        self._pending.pop(state)[2].continuation.drop()


def _serialize_request(request: Json) -> str:
    """Compared as text: 1, 1.0 and true are equal in Python and not in JSON."""
    return json.dumps(request, sort_keys=True)
