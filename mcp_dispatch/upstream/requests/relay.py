"""Between one server and the clients: its questions reach whom they belong to, its notices too."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import anyio

from mcp_dispatch.model.client import NotAnswered
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.requests.request import Errand
from mcp_dispatch.upstream.requests.server_requests import ELICITATION, ROOTS, SAMPLING, Inquiry

logger = logging.getLogger(__name__)

MESSAGE: Final = "notifications/message"
UPDATED: Final = "notifications/resources/updated"
ELICITED: Final = "notifications/elicitation/complete"
_PASSED_ON: Final = frozenset({MESSAGE, UPDATED, ELICITED})

_METHOD_NOT_FOUND: Final = -32601
_UNATTRIBUTED: Final = -32000
_MOST_NOTICES: Final = 1_000
_DELIVERY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Notice:
    """What a server said unasked, and the request it was working on, where that is known."""

    server: str
    method: str
    params: JsonObject
    errand: Errand | None


OnNotice = Callable[[Notice], Awaitable[None]]
Roots = Callable[[], list[JsonObject]]
"""The directories that a server may know of: `{"uri": …, "name": …}`."""


async def nobody_listens(_: Notice) -> None:
    """Where no client is to be told."""


def no_roots() -> list[JsonObject]:
    return []


class Relay:
    """For one server. `roots` and `on_notice` may be set at any time."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._in_flight: dict[int, Errand] = {}
        self._notices: deque[Notice] = deque(maxlen=_MOST_NOTICES)
        self._heard = anyio.Event()
        self._delivered = anyio.Event()
        self._delivering = False
        self.roots: Roots = no_roots
        self.on_notice: OnNotice = nobody_listens

    @contextmanager
    def works_on(self, request: int, errand: Errand) -> Generator[None]:
        self._in_flight[request] = errand
        try:
            yield
        finally:
            del self._in_flight[request]

    # -- questions

    async def answer(self, method: str, params: JsonObject, related: int | None) -> JsonObject:
        """`related` is the request on whose stream the question came. Raises `NotAnswered`."""
        if method == "ping":
            return {}
        if method == ROOTS:
            return {"roots": [*self.roots()]}
        if method not in (ELICITATION, SAMPLING):
            text = f"mcp-dispatch does not answer {method!r} from a server"
            raise NotAnswered(_METHOD_NOT_FOUND, text)
        return await self._owner(method, related).ask(Inquiry(self._server, method, params))

    def _owner(self, method: str, related: int | None) -> Errand:
        if related is not None and related in self._in_flight:
            return self._in_flight[related]
        errands = list(self._in_flight.values())
        if not errands:
            raise NotAnswered(
                _UNATTRIBUTED,
                f"mcp-dispatch: no request is in flight that {method!r} could belong to; ask only "
                "while working on one",
            )
        if len({errand.respondent.scope for errand in errands}) > 1:
            raise NotAnswered(
                _UNATTRIBUTED,
                f"mcp-dispatch: several clients have requests in flight, and nothing says to whom "
                f'{method!r} belongs. Set "connection": "per-scope" in the entry of '
                f"{self._server!r} under mcpServers: then each client has a connection of its own",
            )
        # All of one scope are one person's. Who waits for an answer already is less likely to ask.
        idle = [errand for errand in errands if not errand.waits_for_answer]
        return (idle or errands)[-1]

    # -- notices

    def hear(self, method: str, params: JsonObject, related: int | None) -> None:
        """In the order of arrival; must not wait."""
        if method not in _PASSED_ON:
            return
        errand = None if method == UPDATED else self._subject(related)
        if method != UPDATED and errand is None and self._in_flight:
            logger.debug("%s: %s of one of several clients is dropped", self._server, method)
            return
        self._notices.append(Notice(self._server, method, params, errand))
        self._heard.set()

    def _subject(self, related: int | None) -> Errand | None:
        """The request that a notice is about, where that is certain enough."""
        if related is not None and related in self._in_flight:
            return self._in_flight[related]
        errands = list(self._in_flight.values())
        one = len({errand.respondent.scope for errand in errands}) == 1
        return errands[-1] if one else None

    async def deliver(self) -> None:
        """Until cancelled."""
        while True:
            while self._notices:
                self._delivering = True
                with anyio.move_on_after(_DELIVERY_SECONDS):
                    await self.on_notice(self._notices.popleft())
            self._delivering = False
            delivered, self._delivered = self._delivered, anyio.Event()
            delivered.set()
            self._heard = anyio.Event()
            await self._heard.wait()

    async def drain(self) -> None:
        """Until all that came so far has been delivered: no notice is lost behind a result."""
        if self._notices or self._delivering:
            with anyio.move_on_after(_DELIVERY_SECONDS):
                await self._delivered.wait()
