"""Which headers a server is sent: those of its entry, over them those that its helper gives."""

import re
from collections.abc import Mapping
from typing import Final

import anyio

from mcp_dispatch.model.json import Json
from mcp_dispatch.upstream.errors import NotTaken
from mcp_dispatch.upstream.transports.headers__helper import HeadersHelper, HelperFailed

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
