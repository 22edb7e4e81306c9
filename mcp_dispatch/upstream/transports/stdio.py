"""The transport of a server that is a child of ours: its process and its two pipes."""

from typing import Final

import anyio
import anyio.abc
from mcp_types import RequestId

from mcp_dispatch.upstream.config.model import MESSAGE_BYTES
from mcp_dispatch.upstream.errors import UpstreamError
from mcp_dispatch.upstream.transports.process import ServerProcess
from mcp_dispatch.upstream.transports.stdio__pipe import Pipe
from mcp_dispatch.wire.sdk_streams import OnNoise, SessionReader, SessionWriter

# Seconds that a pipe may stay open once the process has ended.
_LINGER: Final = 0.5


class StdioTransport:
    """Over when either pipe fails or the process ends, whichever is noticed first."""

    def __init__(
        self, process: ServerProcess, on_noise: OnNoise, *, line_limit: int = MESSAGE_BYTES
    ) -> None:
        self._process = process
        self._pipe = Pipe(
            process.stdout.receive, process.stdin.send, on_noise, line_limit=line_limit
        )

    @property
    def has_headers(self) -> bool:
        return False

    @property
    def renewals(self) -> int:
        return 0

    @property
    def reader(self) -> SessionReader:
        return self._pipe.reader

    @property
    def writer(self) -> SessionWriter:
        return self._pipe.writer

    @property
    def over(self) -> anyio.Event:
        return self._pipe.over

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._notice_exit)
            await self._pipe.write_lines(task_status=task_status)

    def agreed(self, version: str) -> None:
        """Nothing on a pipe depends on the version."""

    def loss(self, id: RequestId) -> UpstreamError | None:
        """On a pipe nothing is lost but all."""

    async def end(self, patience: float) -> str:
        return self._pipe.fault or await self._process.exit_text(patience) or "closed its output"

    async def _notice_exit(self) -> None:
        """A descendant may hold the pipes open, so that the end of the process is no end of file."""
        await self._process.child.wait()
        with anyio.move_on_after(_LINGER):
            await self._pipe.over.wait()
        self._pipe.over.set()
