"""The session of the handshake era: what the server calls it, and how to begin another."""

import re
from collections.abc import Mapping
from typing import Final

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.upstream.errors import NotTaken

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"


def stamped_version(message: JsonObject) -> str | None:
    """The version that a request of the era without a handshake carries with it."""
    version = _object(_object(message.get("params")).get("_meta")).get(VERSION_KEY)
    return version if isinstance(version, str) else None


def modern_headers(message: JsonObject, version: str) -> dict[str, str]:
    method = str(message.get("method"))
    headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
    key = NAME_BEARING_METHODS.get(method)
    name = _object(message.get("params")).get(key) if key else None
    if isinstance(name, str):
        headers[MCP_NAME_HEADER] = encode_header_value(name)
    return headers


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


SESSION_FIELD: Final = "mcp-session-id"
VERSION_FIELD: Final = "mcp-protocol-version"
_ID: Final = re.compile(r"[!-~]{1,4096}")


class SessionForgotten(NotTaken):
    """The server does not know the session, and has therefore not looked at the request."""

    def __init__(self, id: str) -> None:
        super().__init__("forgot the session")
        self.id = id


class Session:
    """Stays empty with servers that have no sessions, and in the era that has none."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.version: str | None = None
        self.greeting: JsonObject | None = None

    def headers(self, message: JsonObject | None = None) -> dict[str, str]:
        """For a request, or for a stream that is no request."""
        if message is not None and message.get("method") == "initialize":
            return {}
        modern = None if message is None else stamped_version(message)
        if message is not None and modern is not None:
            return modern_headers(message, modern)
        headers = {} if self.version is None else {VERSION_FIELD: self.version}
        return headers if self.id is None else {**headers, SESSION_FIELD: self.id}

    def begin(self, greeting: JsonObject, fields: Mapping[str, str]) -> None:
        """The server has answered `initialize`."""
        given = fields.get(SESSION_FIELD, "")
        self.greeting = greeting
        self.id = given if _ID.fullmatch(given) else None
