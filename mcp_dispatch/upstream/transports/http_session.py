"""The HTTP session of the handshake era, and the headers of both eras."""

import re
from collections.abc import Mapping
from typing import Final

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.upstream.errors import RequestNotExecuted
from mcp_dispatch.wire.sdk import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"


def read_request_version(message: JsonObject) -> str | None:
    """Return the protocol version in the `_meta` of a modern request."""
    version = _as_object(_as_object(message.get("params")).get("_meta")).get(VERSION_KEY)
    return version if isinstance(version, str) else None


def build_modern_headers(message: JsonObject, version: str) -> dict[str, str]:
    method = str(message.get("method"))
    headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
    key = NAME_BEARING_METHODS.get(method)
    name = _as_object(message.get("params")).get(key) if key else None
    if isinstance(name, str):
        headers[MCP_NAME_HEADER] = encode_header_value(name)
    return headers


def _as_object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


SESSION_HEADER: Final = "mcp-session-id"
VERSION_HEADER: Final = "mcp-protocol-version"
_SESSION_ID_PATTERN: Final = re.compile(r"[!-~]{1,4096}")


class SessionForgotten(RequestNotExecuted):
    """The server does not know the session, and has therefore not executed the request."""

    def __init__(self, id: str) -> None:
        super().__init__("forgot the session")
        self.id = id


class HttpSession:
    """The current session; `id` is None for servers and protocol versions without sessions."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.version: str | None = None
        self.initialize_request: JsonObject | None = None

    def build_headers(self, message: JsonObject | None = None) -> dict[str, str]:
        """Return the headers for a request, or for a stream if `message` is None."""
        if message is not None and message.get("method") == "initialize":
            return {}
        modern = None if message is None else read_request_version(message)
        if message is not None and modern is not None:
            return build_modern_headers(message, modern)
        headers = {} if self.version is None else {VERSION_HEADER: self.version}
        return headers if self.id is None else {**headers, SESSION_HEADER: self.id}

    def begin(self, initialize_request: JsonObject, response_headers: Mapping[str, str]) -> None:
        """Record the session from the server's response to `initialize`."""
        session_id = response_headers.get(SESSION_HEADER, "")
        self.initialize_request = initialize_request
        self.id = session_id if _SESSION_ID_PATTERN.fullmatch(session_id) else None
