"""The headers of requests to a server: those of its entry, overridden by its helper."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Final, cast

import anyio
from anyio.abc import ByteReceiveStream

from mcp_dispatch.model.json import Json
from mcp_dispatch.processes.child import ChildProcess, ProcessStartError
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.processes.environment import remove_own_variables
from mcp_dispatch.upstream.errors import RequestNotExecuted
from mcp_dispatch.wire.codec import Undecodable, decode

HELPER_SECONDS: Final = 10.0
_MAX_OUTPUT_BYTES: Final = 1 << 20
_TERMINATE_SECONDS: Final = 1.0


class HeadersHelperFailed(Exception):
    """The message is a clause about the helper; it never contains the helper's output."""


class HeadersHelper:
    """A shell command that prints headers as a JSON object."""

    def __init__(
        self,
        command: str,
        server: str,
        url: str,
        children: ProcessGroup,
        environ: Mapping[str, str],
        cwd: Path,
        *,
        timeout: float = HELPER_SECONDS,
    ) -> None:
        self._argv = (
            ["cmd", "/c", command] if sys.platform == "win32" else ["/bin/sh", "-c", command]
        )
        self._environ = {
            **remove_own_variables(environ),
            "CLAUDE_CODE_MCP_SERVER_NAME": server,
            "CLAUDE_CODE_MCP_SERVER_URL": url,
        }
        self._children = children
        self._cwd = cwd
        self._timeout = timeout

    async def fetch_headers(self) -> dict[str, str]:
        """Run the helper and return the headers it printed. Raises `HeadersHelperFailed`."""
        try:
            child = await self._children.spawn(
                self._argv,
                cwd=self._cwd,
                env=self._environ,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=DEVNULL,
            )
        except ProcessStartError as error:
            raise HeadersHelperFailed(f"cannot be started: {error.problem}") from error
        try:
            return _parse_headers(await self._read_output(child))
        finally:
            with anyio.CancelScope(shield=True):
                await child.aclose(_TERMINATE_SECONDS)

    async def _read_output(self, child: ChildProcess) -> bytes:
        assert child.stdout is not None, "stdout is a pipe"
        with anyio.move_on_after(self._timeout):
            printed = await _read_all(child.stdout)
            code = await child.wait()
            if code:
                raise HeadersHelperFailed(f"ended with code {code}")
            return printed
        raise HeadersHelperFailed(f"did not end within {self._timeout:g} s")


async def _read_all(stream: ByteReceiveStream) -> bytes:
    printed = bytearray()
    async for chunk in stream:
        printed += chunk
        if len(printed) > _MAX_OUTPUT_BYTES:
            raise HeadersHelperFailed(f"printed more than {_MAX_OUTPUT_BYTES:,} bytes")
    return bytes(printed)


def _parse_headers(printed: bytes) -> dict[str, str]:
    try:
        value: Json = decode(printed)
    except Undecodable as error:
        raise HeadersHelperFailed("printed something other than a JSON object") from error
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise HeadersHelperFailed("printed something other than a JSON object of texts")
    return cast("dict[str, str]", value)


_NAME_PATTERN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE_PATTERN: Final = re.compile(r"[\t\x20-\x7e]*")
# Set by the transport; other values would break it.
_RESERVED_NAMES: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host"}
    | {"last-event-id", "transfer-encoding"}
    | {"mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"}
)


def find_header_problem(name: str, value: str) -> str | None:
    """Return what is wrong with a header, without its value, which may be a secret."""
    if not _NAME_PATTERN.fullmatch(name):
        return "is not a name that a header can have"
    if name.lower() in _RESERVED_NAMES or name.lower().startswith("mcp-param-"):
        return "is set by the protocol itself"
    if not _VALUE_PATTERN.fullmatch(value):
        return "has a character that a header cannot hold"
    return None


class HeaderSource:
    """The helper runs before the first request, and again on `refresh`."""

    def __init__(self, static: Mapping[str, str], helper: HeadersHelper | None) -> None:
        self._static = dict(static)
        self._helper = helper
        self._headers: dict[str, str] | None = None if helper else self._static
        self._lock = anyio.Lock()

    async def load(self) -> Mapping[str, str]:
        """Return the current headers. Raises `RequestNotExecuted` if the helper fails."""
        if self._headers is None:
            async with self._lock:
                if self._headers is None:
                    self._headers = await self._run_helper()
        return self._headers

    async def refresh(self, stale: Mapping[str, str]) -> bool:
        """Run the helper again after a refusal; return whether the headers have changed."""
        if self._helper is None:
            return False
        async with self._lock:
            if self._headers is stale:
                self._headers = await self._run_helper()
        return self._headers != stale

    async def _run_helper(self) -> dict[str, str]:
        assert self._helper is not None
        try:
            helper_headers = await self._helper.fetch_headers()
            _check_headers(helper_headers)
        except HeadersHelperFailed as error:
            raise RequestNotExecuted(f"has a headersHelper that {error}") from error
        overridden = {name.lower() for name in helper_headers}
        kept = {
            name: value for name, value in self._static.items() if name.lower() not in overridden
        }
        return {**kept, **helper_headers}


def _check_headers(headers: Mapping[str, Json]) -> None:
    for name, value in headers.items():
        problem = find_header_problem(name, str(value))
        if problem is not None:
            raise HeadersHelperFailed(f"gave a header that {problem}")
