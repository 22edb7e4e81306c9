"""The session of the handshake era: what the server calls it, and how to begin another."""

import re
from collections.abc import Mapping
from typing import Final

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.errors import NotTaken
from mcp_dispatch.upstream.transports.http_session__modern import modern_headers, stamped_version

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
