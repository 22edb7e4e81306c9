"""The stream on which a server of the handshake era speaks unasked: opened again whenever it ends."""

from typing import Final, Protocol

from mcp_dispatch.upstream.errors import NotTaken, RequestLost, Unreachable
from mcp_dispatch.upstream.transports.http_client import HttpClient
from mcp_dispatch.upstream.transports.http_request import EVENT_STREAM, Pause
from mcp_dispatch.upstream.transports.http_session import SESSION_FIELD, Session
from mcp_dispatch.upstream.transports.mailbox import Inbox
from mcp_dispatch.upstream.transports.sse_parser import Bookmark, events

_LONGEST_WAIT: Final = 30.0
_MAY_PASS: Final = frozenset({408, 425, 429})


class Owner(Protocol):
    """What the listener may tell the transport it belongs to."""

    def trouble(self, problem: str) -> None: ...

    async def renew(self, stale: str) -> None:
        """Raises `NotTaken` and `RequestLost`."""
        ...


class Listening:
    def __init__(
        self,
        client: HttpClient,
        session: Session,
        inbox: Inbox,
        limit: int,
        pause: Pause,
        owner: Owner,
    ) -> None:
        self._client = client
        self._session = session
        self._inbox = inbox
        self._limit = limit
        self._pause = pause
        self._owner = owner

    async def run(self) -> None:
        """Until cancelled, or until the server says that it has no such stream."""
        mark, failures = Bookmark(), 0
        while True:
            before = mark.read
            try:
                if not await self._listen(mark):
                    return
            except Unreachable as error:
                self._owner.trouble(str(error))
            except (NotTaken, RequestLost):
                pass
            failures = 0 if mark.read > before else failures + 1
            await self._pause(min(mark.retry * 2 ** min(failures, 10), _LONGEST_WAIT))

    async def _listen(self, mark: Bookmark) -> bool:
        """Whether it is worth another try, once this stream has ended."""
        headers = {**self._session.headers(), "Accept": EVENT_STREAM}
        if mark.id is not None:
            headers["Last-Event-ID"] = mark.id
        async with self._client.exchange("GET", headers) as answer:
            session = headers.get(SESSION_FIELD)
            if answer.status == 404 and session is not None:
                forgotten = session
            elif not answer.good:
                return answer.status >= 500 or answer.status in _MAY_PASS
            elif answer.media != EVENT_STREAM:
                return False
            else:
                async for event in events(answer.chunks, self._limit):
                    mark.note(event)
                    if event.kind == "message" and event.data:
                        for message in self._inbox.messages(event.data, answers=False):
                            await self._inbox.put(message)
                return True
        mark.id = None
        await self._owner.renew(forgotten)
        return True
