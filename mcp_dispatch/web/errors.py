"""Exceptions of this package; their messages are shown to the model."""

from mcp_dispatch.model.errors import MCPDispatchError


class BadUrl(MCPDispatchError):
    """The text is not a URL that can be fetched."""


class CannotFetch(MCPDispatchError):
    """The page could not be fetched."""


class HostUnreachable(CannotFetch):
    """The host was not found, or no connection to it could be opened."""
