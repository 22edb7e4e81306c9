"""The requests a client waits for: counted and weighed, so that their number stays bounded."""

from dataclasses import dataclass

import anyio
from mcp.shared.dispatcher import coerce_request_id
from mcp_types import RequestId

_OPEN_ENDED = frozenset({"subscriptions/listen"})


@dataclass(frozen=True, slots=True)
class _Request:
    size: int
    open_ended: bool


class InFlight:
    """Requests handed to the SDK and not yet settled.

    Ids are compared as the SDK correlates them, where "7" and 7 are one.
    """

    def __init__(self, requests: int, size: int) -> None:
        self._most = requests
        self._most_bytes = size
        self._requests: dict[RequestId, _Request] = {}
        self._bytes = 0
        self._left = anyio.Event()

    def __len__(self) -> int:
        return len(self._requests)

    def holds(self, id: RequestId) -> bool:
        return coerce_request_id(id) in self._requests

    def has_room(self, size: int) -> bool:
        """Alone, a request of any size fits: the limit on lines bounds it already."""
        if not self._requests:
            return True
        return len(self._requests) < self._most and self._bytes + size <= self._most_bytes

    def enter(self, id: RequestId, method: str, size: int) -> None:
        self._requests[coerce_request_id(id)] = _Request(size, method in _OPEN_ENDED)
        self._bytes += size

    def leave(self, id: RequestId) -> None:
        """The request was answered, or never will be. Unknown ids are ignored."""
        request = self._requests.pop(coerce_request_id(id), None)
        if request is None:
            return
        self._bytes -= request.size
        left, self._left = self._left, anyio.Event()
        left.set()

    async def settled(self) -> None:
        """Wait until only requests are left that end with the connection."""
        while any(not request.open_ended for request in self._requests.values()):
            await self._left.wait()
