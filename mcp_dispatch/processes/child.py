"""One child process, with its pipes and with what it started itself."""

import sys
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import AsyncResource, ByteReceiveStream, ByteSendStream, Process

from mcp_dispatch.processes.pipes import Plumbing

DEFAULT_GRACE = 2.0
REAP_PATIENCE = 1.0

End = Callable[["Child", float], Awaitable[None]]
"""Ends a child's group and the carriers of its marker within a grace of so many seconds."""


class Child(AsyncResource):
    """Leaving it as a context stops it, with all it left, and closes its pipes."""

    def __init__(self, process: Process, number: int, plumbing: Plumbing, end: End) -> None:
        self.number = number
        self._process = process
        self._plumbing = plumbing
        self._end = end

    @property
    def pid(self) -> int:
        """Also the number of its process group and of its session."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Negative for death by a signal; None while it runs."""
        return self._process.returncode

    @property
    def stdin(self) -> ByteSendStream | None:
        return self._plumbing.stdin or self._process.stdin

    @property
    def stdout(self) -> ByteReceiveStream | None:
        return self._plumbing.stdout or self._process.stdout

    @property
    def stderr(self) -> ByteReceiveStream | None:
        return self._plumbing.stderr or self._process.stderr

    async def wait(self) -> int:
        """Its return code, once it has ended, whoever may still hold its pipes."""
        return await self._process.wait()

    async def stop(self, grace: float = DEFAULT_GRACE) -> None:
        """TERM, and KILL after `grace` seconds, to it and to all it left; also when it has ended.

        Goes on when cancelled; takes at most `grace` and two seconds more.
        """
        with anyio.CancelScope(shield=True):
            if sys.platform == "win32":
                self._process.kill()
            else:
                await self._end(self, grace)
            with anyio.move_on_after(REAP_PATIENCE):
                await self.wait()

    async def aclose(self, grace: float = DEFAULT_GRACE) -> None:
        await self.stop(grace)
        with anyio.CancelScope(shield=True):
            for stream in (self.stdin, self.stdout, self.stderr):
                if stream is not None:
                    await stream.aclose()
