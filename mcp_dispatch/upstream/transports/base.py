"""What carries messages to and from a server, whichever way it is reached."""

from typing import Protocol

import anyio
import anyio.abc
from mcp_types import RequestId

from mcp_dispatch.upstream.errors import UpstreamError
from mcp_dispatch.wire.sdk_streams import SessionReader, SessionWriter


class Transport(Protocol):
    """One life of the way to a server. `over` is set once the server can no longer be reached."""

    @property
    def has_headers(self) -> bool:
        """Whether a request has headers beside its body, as in HTTP."""
        ...

    @property
    def renewals(self) -> int:
        """How many sessions were begun in place of one that the server had forgotten."""
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
        """Carries messages until cancelled; goes on beside whoever reads and writes."""
        ...

    def set_protocol_version(self, version: str) -> None:
        """Told of the protocol version once both sides have settled on one."""
        ...

    def pop_error(self, id: RequestId) -> UpstreamError | None:
        """Why this request got no answer, where that is no matter of the whole connection."""
        ...

    async def wait_for_end_reason(self, timeout: float) -> str:
        """How it ended, as a clause about the server; asked once `over` is set."""
        ...
