"""HTTP+SSE of 2024-11-05: one stream on which the server speaks, and an address to post to."""

from typing import Final

import anyio
import httpx2
from anyio.abc import TaskStatus
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, RequestId

from mcp_dispatch.upstream.errors import NotTaken, RequestLost, UpstreamError
from mcp_dispatch.upstream.transports.http_client import HttpClient, refusal
from mcp_dispatch.upstream.transports.http_request import EVENT_STREAM, JSON
from mcp_dispatch.upstream.transports.http_session import VERSION_FIELD
from mcp_dispatch.upstream.transports.mailbox import Inbox, Outbox
from mcp_dispatch.upstream.transports.sse_parser import Event, events
from mcp_dispatch.wire.codec import encode
from mcp_dispatch.wire.jsonrpc import from_session_message
from mcp_dispatch.wire.sdk_streams import OnNoise, SessionReader, SessionWriter

# Seconds that a server may take to accept a message; its answer comes otherwise.
_DELIVERY: Final = 60.0


class EventStreamHttp:
    """Over when its stream ends: whatever was asked then gets no answer."""

    def __init__(self, client: HttpClient, on_noise: OnNoise, *, limit: int) -> None:
        self._client = client
        self._limit = limit
        self._inbox = Inbox(on_noise)
        self._outbox = Outbox(self._take)
        self._address: httpx2.URL | None = None
        self._addressed = anyio.Event()
        self._losses: dict[RequestId, UpstreamError] = {}
        self._fault = "closed its event stream"
        self._version: str | None = None
        self._over = anyio.Event()

    @property
    def has_headers(self) -> bool:
        return False

    @property
    def renewals(self) -> int:
        return 0

    @property
    def reader(self) -> SessionReader:
        return self._inbox

    @property
    def writer(self) -> SessionWriter:
        return self._outbox

    @property
    def over(self) -> anyio.Event:
        return self._over

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            await self._read()
        except (NotTaken, RequestLost) as error:
            self._fault = str(error)
        finally:
            self._over.set()
            self._addressed.set()

    def agreed(self, version: str) -> None:
        self._version = version

    def loss(self, id: RequestId) -> UpstreamError | None:
        return self._losses.pop(id, None)

    async def end(self, patience: float) -> str:
        return self._fault

    async def _read(self) -> None:
        async with self._client.exchange("GET", {"Accept": EVENT_STREAM}) as answer:
            if not answer.good:
                raise refusal(answer.status)
            if answer.media != EVENT_STREAM:
                raise RequestLost(
                    f"answered with the content type {answer.media[:80]!r} instead of an event "
                    'stream; if it speaks streamable HTTP, set "type": "http"'
                )
            async for event in events(answer.chunks, self._limit):
                await self._hear(event)

    async def _hear(self, event: Event) -> None:
        if event.kind == "endpoint" and self._address is None:
            self._address = self._client.within(event.data.decode("utf-8", "replace").strip())
            self._addressed.set()
        elif event.kind == "message" and event.data:
            for message in self._inbox.messages(event.data):
                await self._inbox.put(message)

    async def _take(self, item: SessionMessage) -> None:
        body = encode(from_session_message(item))
        try:
            await self._post(body)
        except (NotTaken, RequestLost) as error:
            if isinstance(item.message, JSONRPCRequest):
                self._losses[item.message.id] = error
                await self._inbox.lose(item.message.id)

    async def _post(self, body: bytes) -> None:
        await self._addressed.wait()
        if self._address is None or self._over.is_set():
            raise anyio.BrokenResourceError
        headers = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENT_STREAM}"}
        if self._version is not None:
            headers[VERSION_FIELD] = self._version
        with anyio.move_on_after(_DELIVERY):
            async with self._client.exchange("POST", headers, body, url=self._address) as answer:
                if not answer.good:
                    raise refusal(answer.status)
                return
        raise RequestLost(f"did not accept a message within {_DELIVERY:g} s")
