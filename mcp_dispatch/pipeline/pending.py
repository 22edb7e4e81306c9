"""Requests that wait until the client sends them again with answers."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mcp_dispatch.model.calls import PreHookResult, ToolCall
from mcp_dispatch.model.client import PENDING_SECONDS, Continuation
from mcp_dispatch.model.json import Json, to_canonical_json

MAX_PENDING_REQUESTS = 100
MAX_PENDING_QUESTIONS = 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that an upstream has begun, and the result of the hooks that ran before it."""

    continuation: Continuation
    review: PreHookResult

    def drop(self) -> None:
        self.continuation.drop()


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    request: str
    expires_at: float
    pending: T


class PendingRequests(Generic[T]):
    """The pending requests of one scope, keyed by one-shot state token.

    A token expires after `PENDING_SECONDS`. When there are `max_pending`, the oldest gives way.
    `drop` releases what an entry holds when its request can no longer be continued.
    """

    def __init__(
        self,
        max_pending: int,
        drop: Callable[[T], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_pending = max_pending
        self._drop_pending = drop
        self._clock = clock
        self._entries: dict[str, _Entry[T]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, request: Json, pending: T) -> str:
        """Return the state token. The client has to repeat `request` unchanged."""
        self._evict()
        state = secrets.token_urlsafe(24)
        expires_at = self._clock() + PENDING_SECONDS
        # Compared as text: 1, 1.0 and true are equal in Python and not in JSON.
        self._entries[state] = _Entry(to_canonical_json(request), expires_at, pending)
        return state

    def pop(self, state: str, request: Json) -> T | None:
        """Return what waits for this request, or None. The token is used up in either case."""
        entry = self._entries.pop(state, None)
        if entry is None:
            return None
        if entry.request == to_canonical_json(request) and self._clock() < entry.expires_at:
            return entry.pending
        self._drop_pending(entry.pending)
        return None

    def clear(self) -> None:
        """Drop every entry: the client is gone."""
        while self._entries:
            self._drop(next(iter(self._entries)))

    def _evict(self) -> None:
        now = self._clock()
        for state in [key for key, entry in self._entries.items() if entry.expires_at <= now]:
            self._drop(state)
        while len(self._entries) >= self._max_pending:
            self._drop(next(iter(self._entries)))

    def _drop(self, state: str) -> None:
        self._drop_pending(self._entries.pop(state).pending)


def identify_call(call: ToolCall) -> Json:
    """Return the part of a `tools/call` that the client has to repeat."""
    return {"name": call.name, "arguments": call.arguments}
