"""Between one server and the clients: its questions reach whom they belong to, its notices too."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import anyio

from mcp_dispatch.model.client import ClientRequestError
from mcp_dispatch.model.json import JsonObject
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


@dataclass(frozen=True, slots=True)
class ServerNotification:
    """What a server said unasked, and the request it was working on, where that is known."""

    server: str
    method: str
    params: JsonObject
    upstream_request: UpstreamRequest | None


OnNotification = Callable[[ServerNotification], Awaitable[None]]
ListRoots = Callable[[], list[JsonObject]]
"""The directories that a server may know of: `{"uri": …, "name": …}`."""


async def discard_notification(_: ServerNotification) -> None:
    """Where no client is to be told."""


def list_no_roots() -> list[JsonObject]:
    return []


class Relay:
    """For one server. `roots` and `on_notice` may be set at any time."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._in_flight: dict[int, UpstreamRequest] = {}
        self._notifications: deque[ServerNotification] = deque(maxlen=_MAX_NOTIFICATIONS)
        self._received = anyio.Event()
        self._delivered = anyio.Event()
        self._is_delivering = False
        self.list_roots: ListRoots = list_no_roots
        self.on_notification: OnNotification = discard_notification

    @contextmanager
    def track_request(self, request_id: int, upstream_request: UpstreamRequest) -> Generator[None]:
        self._in_flight[request_id] = upstream_request
        try:
            yield
        finally:
            del self._in_flight[request_id]

    # -- questions

    async def answer(self, method: str, params: JsonObject, related_id: int | None) -> JsonObject:
        """`related` is the request on whose stream the question came. Raises `NotAnswered`."""
        if method == "ping":
            return {}
        if method == ROOTS:
            return {"roots": [*self.list_roots()]}
        if method not in (ELICITATION, SAMPLING):
            text = f"mcp-dispatch does not answer {method!r} from a server"
            raise ClientRequestError(_METHOD_NOT_FOUND, text)
        return await self._find_owner(method, related_id).ask(
            ServerRequest(self._server, method, params)
        )

    def _find_owner(self, method: str, related_id: int | None) -> UpstreamRequest:
        if related_id is not None and related_id in self._in_flight:
            return self._in_flight[related_id]
        errands = list(self._in_flight.values())
        if not errands:
            raise ClientRequestError(
                _UNATTRIBUTED,
                f"mcp-dispatch: no request is in flight that {method!r} could belong to; ask only "
                "while working on one",
            )
        if len({errand.bridge.scope_id for errand in errands}) > 1:
            raise ClientRequestError(
                _UNATTRIBUTED,
                f"mcp-dispatch: several clients have requests in flight, and nothing says to whom "
                f'{method!r} belongs. Set "connection": "per-scope" in the entry of '
                f"{self._server!r} under mcpServers: then each client has a connection of its own",
            )
        # All of one scope are one person's. Who waits for an answer already is less likely to ask.
        idle = [errand for errand in errands if not errand.is_waiting]
        return (idle or errands)[-1]

    # -- notices

    def handle_notification(self, method: str, params: JsonObject, related_id: int | None) -> None:
        """In the order of arrival; must not wait."""
        if method not in _RELAYED_METHODS:
            return
        errand = None if method == RESOURCE_UPDATED else self._find_subject(related_id)
        if method != RESOURCE_UPDATED and errand is None and self._in_flight:
            logger.debug("%s: %s of one of several clients is dropped", self._server, method)
            return
        self._notifications.append(ServerNotification(self._server, method, params, errand))
        self._received.set()

    def _find_subject(self, related_id: int | None) -> UpstreamRequest | None:
        """The request that a notice is about, where that is certain enough."""
        if related_id is not None and related_id in self._in_flight:
            return self._in_flight[related_id]
        errands = list(self._in_flight.values())
        one = len({errand.bridge.scope_id for errand in errands}) == 1
        return errands[-1] if one else None

    async def deliver(self) -> None:
        """Until cancelled."""
        while True:
            while self._notifications:
                self._is_delivering = True
                with anyio.move_on_after(_DELIVERY_SECONDS):
                    await self.on_notification(self._notifications.popleft())
            self._is_delivering = False
            delivered, self._delivered = self._delivered, anyio.Event()
            delivered.set()
            self._received = anyio.Event()
            await self._received.wait()

    async def drain(self) -> None:
        """Until all that came so far has been delivered: no notice is lost behind a result."""
        if self._notifications or self._is_delivering:
            with anyio.move_on_after(_DELIVERY_SECONDS):
                await self._delivered.wait()
