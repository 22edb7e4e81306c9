"""Exceptions of this package."""

from mcp_dispatch.model.errors import MCPDispatchError


class SchemaUnusable(MCPDispatchError):
    """The schema cannot be used safely; its tool is not offered, for `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
