"""Why a page cannot be fetched, in words for whoever asked for it."""

from mcp_dispatch.model.errors import MCPDispatchError


class BadUrl(MCPDispatchError):
    """The text names no page that could be fetched."""


class CannotFetch(MCPDispatchError):
    """The page could not be had."""


class HostUnreachable(CannotFetch):
    """There was no connection to the host."""
