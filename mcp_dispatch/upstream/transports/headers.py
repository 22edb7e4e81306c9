"""Which headers a server is sent: those of its entry, over them those that its helper gives."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final, cast

import anyio
from anyio.abc import ByteReceiveStream

from mcp_dispatch.model.json import Json
from mcp_dispatch.processes.child import CannotStart, Child
from mcp_dispatch.processes.children import Children
from mcp_dispatch.processes.environment import inherited
from mcp_dispatch.upstream.errors import NotTaken
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


_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
# They are the transport's: to set them otherwise would only break it.
_OURS: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host"}
    | {"last-event-id", "transfer-encoding"}
    | {"mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"}
)


def header_problem(name: str, value: str) -> str | None:
    """What is wrong with a header, without its value, which may be a secret."""
    if not _NAME.fullmatch(name):
        return "is not a name that a header can have"
    if name.lower() in _OURS or name.lower().startswith("mcp-param-"):
        return "is set by the protocol itself"
    if not _VALUE.fullmatch(value):
        return "has a character that a header cannot hold"
    return None


class Headers:
    """The helper runs before the first request, and again on `renew`."""

    def __init__(self, static: Mapping[str, str], helper: HeadersHelper | None) -> None:
        self._static = dict(static)
        self._helper = helper
        self._known: dict[str, str] | None = None if helper else self._static
        self._asking = anyio.Lock()

    async def current(self) -> Mapping[str, str]:
        """Raises `NotTaken` where the helper gives none."""
        if self._known is None:
            async with self._asking:
                if self._known is None:
                    self._known = await self._ask()
        return self._known

    async def renewed(self, stale: Mapping[str, str]) -> bool:
        """Whether there are others now than those that were turned down."""
        if self._helper is None:
            return False
        async with self._asking:
            if self._known is stale:
                self._known = await self._ask()
        return self._known != stale

    async def _ask(self) -> dict[str, str]:
        assert self._helper is not None
        try:
            given = await self._helper.headers()
            _check(given)
        except HelperFailed as error:
            raise NotTaken(f"has a headersHelper that {error}") from error
        named = {name.lower() for name in given}
        kept = {name: value for name, value in self._static.items() if name.lower() not in named}
        return {**kept, **given}


def _check(given: Mapping[str, Json]) -> None:
    for name, value in given.items():
        problem = header_problem(name, str(value))
        if problem is not None:
            raise HelperFailed(f"gave a header that {problem}")
