"""The interface of all transports."""

from typing import Protocol

import anyio
import anyio.abc
from mcp_types import RequestId

from mcp_dispatch.upstream.errors import UpstreamError
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
