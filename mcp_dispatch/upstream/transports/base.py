"""The interface of all transports."""

from typing import Protocol

import anyio
import anyio.abc
from mcp_types import RequestId

from mcp_dispatch.upstream.errors import UpstreamError
from mcp_dispatch.wire.sdk import ServerMessageMetadata, SessionMessage
from mcp_dispatch.wire.sdk_streams import SessionReader, SessionWriter


class Transport(Protocol):
    """Carries messages to and from a server; `closed` is set when it can no longer be reached."""

    @property
    def has_headers(self) -> bool:
        """Whether a request has headers besides its body, as in HTTP."""
        ...

    @property
    def renewals(self) -> int:
        """How many sessions have replaced one that the server had lost."""
        ...

    @property
    def reader(self) -> SessionReader: ...

    @property
    def writer(self) -> SessionWriter: ...

    @property
    def closed(self) -> anyio.Event: ...

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Carry messages until cancelled, while other tasks use `reader` and `writer`."""
        ...

    def set_protocol_version(self, version: str) -> None:
        """Set the negotiated protocol version."""
        ...

    def pop_error(self, id: RequestId) -> UpstreamError | None:
        """Return why this request got no answer, unless the whole connection failed."""
        ...

    async def wait_for_end_reason(self, timeout: float) -> str:
        """Return how the transport ended, as a clause about the server; called after `closed`."""
        ...


class RelatedRequestReader(SessionReader):
    """Records on which request's stream the last message arrived.

    `related_id` is None if the transport has one stream for all messages.
    """

    def __init__(self, inner: SessionReader) -> None:
        super().__init__()
        self._inner = inner
        self.related_id: int | None = None

    async def receive(self) -> SessionMessage | Exception:
        message = await self._inner.receive()
        self.related_id = (
            find_related_id(message.metadata) if isinstance(message, SessionMessage) else None
        )
        return message

    async def aclose(self) -> None:
        await super().aclose()
        await self._inner.aclose()


def find_related_id(metadata: object) -> int | None:
    """Return the id of our request, which is always an integer."""
    related = metadata.related_request_id if isinstance(metadata, ServerMessageMetadata) else None
    return related if isinstance(related, int) else None
