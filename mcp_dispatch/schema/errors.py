"""What the schema room raises."""

from mcp_dispatch.model.errors import MCPDispatchError


class SchemaUnusable(MCPDispatchError):
    """A schema we will not validate with; the tool that carries it is held back for `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
