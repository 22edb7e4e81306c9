"""Runs the `headersHelper` of an entry, the user's own line for the shell, and reads what it prints."""

import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final, cast

import anyio
from anyio.abc import ByteReceiveStream

from mcp_dispatch.model.json import Json
from mcp_dispatch.processes.child import Child
from mcp_dispatch.processes.child__errors import CannotStart
from mcp_dispatch.processes.children import Children
from mcp_dispatch.processes.environment import inherited
from mcp_dispatch.wire.codec import Undecodable, decode

HELPER_SECONDS: Final = 10.0
_MOST_OUTPUT: Final = 1 << 20
_GRACE: Final = 1.0


class HelperFailed(Exception):
    """The message is a clause about the helper, without anything that it printed."""


class HeadersHelper:
    def __init__(
        self,
        line: str,
        server: str,
        url: str,
        children: Children,
        environ: Mapping[str, str],
        cwd: Path,
        *,
        seconds: float = HELPER_SECONDS,
    ) -> None:
        self._argv = ["cmd", "/c", line] if sys.platform == "win32" else ["/bin/sh", "-c", line]
        self._environ = {
            **inherited(environ),
            "CLAUDE_CODE_MCP_SERVER_NAME": server,
            "CLAUDE_CODE_MCP_SERVER_URL": url,
        }
        self._children = children
        self._cwd = cwd
        self._seconds = seconds

    async def headers(self) -> dict[str, str]:
        """Raises `HelperFailed`."""
        try:
            child = await self._children.spawn(
                self._argv,
                cwd=self._cwd,
                env=self._environ,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=DEVNULL,
            )
        except CannotStart as error:
            raise HelperFailed(f"cannot be started: {error.problem}") from error
        try:
            return _read(await self._output(child))
        finally:
            with anyio.CancelScope(shield=True):
                await child.aclose(_GRACE)

    async def _output(self, child: Child) -> bytes:
        assert child.stdout is not None, "stdout is a pipe"
        with anyio.move_on_after(self._seconds):
            printed = await _all(child.stdout)
            code = await child.wait()
            if code:
                raise HelperFailed(f"ended with code {code}")
            return printed
        raise HelperFailed(f"did not end within {self._seconds:g} s")


async def _all(stream: ByteReceiveStream) -> bytes:
    printed = bytearray()
    async for chunk in stream:
        printed += chunk
        if len(printed) > _MOST_OUTPUT:
            raise HelperFailed(f"printed more than {_MOST_OUTPUT:,} bytes")
    return bytes(printed)


def _read(printed: bytes) -> dict[str, str]:
    try:
        value: Json = decode(printed)
    except Undecodable as error:
        raise HelperFailed("printed something other than a JSON object") from error
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise HelperFailed("printed something other than a JSON object of texts")
    return cast("dict[str, str]", value)
