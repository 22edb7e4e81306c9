"""The HTTP+SSE transport of 2024-11-05: one event stream, and a URL for POST requests."""

from typing import Final

import anyio
import httpx2
from anyio.abc import TaskStatus
from mcp_types import JSONRPCRequest, RequestId

from mcp_dispatch.upstream.errors import RequestLost, RequestNotExecuted, UpstreamError
from mcp_dispatch.upstream.transports.http_client import HttpClient, to_status_error
from mcp_dispatch.upstream.transports.http_request import EVENT_STREAM, JSON
from mcp_dispatch.upstream.transports.http_session import VERSION_HEADER
from mcp_dispatch.upstream.transports.mailbox import Inbox, Outbox
from mcp_dispatch.upstream.transports.sse_parser import SseEvent, parse_events
from mcp_dispatch.wire.codec import encode
from mcp_dispatch.wire.jsonrpc import from_session_message
from mcp_dispatch.wire.sdk import SessionMessage
from mcp_dispatch.wire.sdk_streams import OnInvalidLine, SessionReader, SessionWriter

# Seconds that a server may take to accept a message; its answer arrives on the stream.
_DELIVERY_SECONDS: Final = 60.0


class SseTransport:
    """Closed when its stream ends: open requests then get no answer."""

    has_headers = False
    renewals = 0

    def __init__(self, client: HttpClient, on_invalid_line: OnInvalidLine, *, limit: int) -> None:
        self._client = client
        self._limit = limit
        self._inbox = Inbox(on_invalid_line)
        self.reader: SessionReader = self._inbox
        self.writer: SessionWriter = Outbox(self._handle_outgoing)
        self._post_url: httpx2.URL | None = None
        self._post_url_known = anyio.Event()
        self._errors: dict[RequestId, UpstreamError] = {}
        self._fault = "closed its event stream"
        self._version: str | None = None
        self.closed = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            await self._read_stream()
        except (RequestNotExecuted, RequestLost) as error:
            self._fault = str(error)
        finally:
            self.closed.set()
            self._post_url_known.set()

    def set_protocol_version(self, version: str) -> None:
        self._version = version

    def pop_error(self, id: RequestId) -> UpstreamError | None:
        return self._errors.pop(id, None)

    async def wait_for_end_reason(self, timeout: float) -> str:
        return self._fault

    async def _read_stream(self) -> None:
        async with self._client.stream("GET", {"Accept": EVENT_STREAM}) as response:
            if not response.is_success:
                raise to_status_error(response.status)
            if response.media_type != EVENT_STREAM:
                raise RequestLost(
                    f"answered with the content type {response.media_type[:80]!r} instead of an event "
                    'stream; if it speaks streamable HTTP, set "type": "http"'
                )
            async for event in parse_events(response.chunks, self._limit):
                await self._handle_event(event)

    async def _handle_event(self, event: SseEvent) -> None:
        if event.kind == "endpoint" and self._post_url is None:
            self._post_url = self._client.resolve_url(event.data.decode("utf-8", "replace").strip())
            self._post_url_known.set()
        elif event.kind == "message" and event.data:
            for message in self._inbox.parse_messages(event.data):
                await self._inbox.put(message)

    async def _handle_outgoing(self, item: SessionMessage) -> None:
        body = encode(from_session_message(item))
        try:
            await self._post(body)
        except (RequestNotExecuted, RequestLost) as error:
            if isinstance(item.message, JSONRPCRequest):
                self._errors[item.message.id] = error
                await self._inbox.put_lost_error(item.message.id)

    async def _post(self, body: bytes) -> None:
        await self._post_url_known.wait()
        if self._post_url is None or self.closed.is_set():
            raise anyio.BrokenResourceError
        headers = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENT_STREAM}"}
        if self._version is not None:
            headers[VERSION_HEADER] = self._version
        with anyio.move_on_after(_DELIVERY_SECONDS):
            async with self._client.stream("POST", headers, body, url=self._post_url) as response:
                if not response.is_success:
                    raise to_status_error(response.status)
                return
        raise RequestLost(f"did not accept a message within {_DELIVERY_SECONDS:g} s")
