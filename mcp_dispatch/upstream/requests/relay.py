"""Routes the requests and notifications of one server to the client they belong to."""

import logging
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import anyio

from mcp_dispatch.concurrency.change_signal import ChangeSignal
from mcp_dispatch.model.client import ClientRequestError
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.listener import NullListener, ServerNotification, UpstreamListener
from mcp_dispatch.upstream.requests.request import UpstreamRequest
from mcp_dispatch.upstream.requests.server_requests import (
    ELICITATION,
    ROOTS,
    SAMPLING,
    ServerRequest,
)

logger = logging.getLogger(__name__)

LOG_MESSAGE: Final = "notifications/message"
RESOURCE_UPDATED: Final = "notifications/resources/updated"
ELICITATION_COMPLETE: Final = "notifications/elicitation/complete"
_RELAYED_METHODS: Final = frozenset({LOG_MESSAGE, RESOURCE_UPDATED, ELICITATION_COMPLETE})

_METHOD_NOT_FOUND: Final = -32601
_UNATTRIBUTED: Final = -32000
_MAX_NOTIFICATIONS: Final = 1_000
_DELIVERY_SECONDS: Final = 5.0


class Relay:
    """The requests in flight to one server, and the notifications that wait for delivery."""

    def __init__(self, server: str, listener: UpstreamListener | None = None) -> None:
        self._server = server
        self._listener = listener or NullListener()
        self._in_flight: dict[int, UpstreamRequest] = {}
        self._notifications: deque[ServerNotification] = deque(maxlen=_MAX_NOTIFICATIONS)
        self._received = anyio.Event()
        self._delivered = ChangeSignal()
        self._is_delivering = False

    @contextmanager
    def track_request(self, request_id: int, upstream_request: UpstreamRequest) -> Generator[None]:
        self._in_flight[request_id] = upstream_request
        try:
            yield
        finally:
            del self._in_flight[request_id]

    def list_roots(self) -> list[JsonObject]:
        return self._listener.list_roots()

    async def answer(self, method: str, params: JsonObject, related_id: int | None) -> JsonObject:
        """Return the answer to a request of the server. Raises `ClientRequestError`.

        `related_id` is the id of our request on whose stream the server's request arrived.
        """
        if method == "ping":
            return {}
        if method == ROOTS:
            return {"roots": [*self.list_roots()]}
        if method not in (ELICITATION, SAMPLING):
            text = f"mcp-dispatch does not answer {method!r} from a server"
            raise ClientRequestError(_METHOD_NOT_FOUND, text)
        owner = self._find_owner(method, related_id)
        return await owner.ask(ServerRequest(self._server, method, params))

    def _find_owner(self, method: str, related_id: int | None) -> UpstreamRequest:
        if related_id is not None and related_id in self._in_flight:
            return self._in_flight[related_id]
        requests = list(self._in_flight.values())
        if not requests:
            raise ClientRequestError(
                _UNATTRIBUTED,
                f"mcp-dispatch: no request is in flight that {method!r} could belong to; ask only "
                "while working on one",
            )
        if len(self._list_scopes()) > 1:
            raise ClientRequestError(
                _UNATTRIBUTED,
                f"mcp-dispatch: several clients have requests in flight, and nothing says to whom "
                f'{method!r} belongs. Set "connection": "per-scope" in the entry of '
                f"{self._server!r} under mcpServers: then each client has a connection of its own",
            )
        # All requests belong to one scope, so any of them reaches the right person. A request that
        # already waits for an answer is less likely to be the one that asks.
        idle = [request for request in requests if not request.is_waiting]
        return (idle or requests)[-1]

    def _list_scopes(self) -> set[str]:
        return {request.bridge.scope_id for request in self._in_flight.values()}

    def handle_notification(self, method: str, params: JsonObject, related_id: int | None) -> None:
        """Queue a notification for delivery. Never waits; order of arrival is kept."""
        if method not in _RELAYED_METHODS:
            return
        request = None if method == RESOURCE_UPDATED else self._find_subject(related_id)
        if method != RESOURCE_UPDATED and request is None and self._in_flight:
            logger.debug("%s: %s of one of several clients is dropped", self._server, method)
            return
        self._notifications.append(ServerNotification(self._server, method, params, request))
        self._received.set()

    def _find_subject(self, related_id: int | None) -> UpstreamRequest | None:
        """Return the request a notification belongs to, or None if several clients are possible."""
        if related_id is not None and related_id in self._in_flight:
            return self._in_flight[related_id]
        if len(self._list_scopes()) != 1:
            return None
        return list(self._in_flight.values())[-1]

    async def deliver(self) -> None:
        """Deliver queued notifications until cancelled."""
        while True:
            while self._notifications:
                self._is_delivering = True
                with anyio.move_on_after(_DELIVERY_SECONDS):
                    await self._listener.handle_notification(self._notifications.popleft())
            self._is_delivering = False
            self._delivered.notify()
            self._received = anyio.Event()
            await self._received.wait()

    async def drain(self) -> None:
        """Wait until all queued notifications are delivered, so that none follows the result."""
        if self._notifications or self._is_delivering:
            with anyio.move_on_after(_DELIVERY_SECONDS):
                await self._delivered.wait()
