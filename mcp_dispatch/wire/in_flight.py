"""The requests a client waits for: counted and weighed, so that their number stays bounded."""

from dataclasses import dataclass

import anyio
from mcp.shared.dispatcher import coerce_request_id
from mcp_types import RequestId

_OPEN_ENDED_METHODS = frozenset({"subscriptions/listen"})


@dataclass(frozen=True, slots=True)
class _Request:
    size: int
    open_ended: bool


class InFlightRequests:
    """Requests handed to the SDK and not yet settled.

    Ids are compared as the SDK correlates them, where "7" and 7 are one.
    """

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._requests: dict[RequestId, _Request] = {}
        self._bytes = 0
        self._request_removed = anyio.Event()

    def __len__(self) -> int:
        return len(self._requests)

    def contains(self, id: RequestId) -> bool:
        return coerce_request_id(id) in self._requests

    def has_room(self, size: int) -> bool:
        """Alone, a request of any size fits: the limit on lines bounds it already."""
        if not self._requests:
            return True
        return len(self._requests) < self._max_requests and self._bytes + size <= self._max_bytes

    def add(self, id: RequestId, method: str, size: int) -> None:
        self._requests[coerce_request_id(id)] = _Request(size, method in _OPEN_ENDED_METHODS)
        self._bytes += size

    def remove(self, id: RequestId) -> None:
        """The request was answered, or never will be. Unknown ids are ignored."""
        request = self._requests.pop(coerce_request_id(id), None)
        if request is None:
            return
        self._bytes -= request.size
        left, self._request_removed = self._request_removed, anyio.Event()
        left.set()

    async def wait_until_settled(self) -> None:
        """Wait until only requests are left that end with the connection."""
        while any(not request.open_ended for request in self._requests.values()):
            await self._request_removed.wait()
