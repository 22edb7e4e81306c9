"""The MCP face: wire messages to calls and outcomes back to the wire, in both protocol eras."""

from mcp_dispatch.server.backend import Backend
from mcp_dispatch.server.resources import LocalResources, StoredResultResources
from mcp_dispatch.server.server import McpServer

__all__ = ["Backend", "LocalResources", "McpServer", "StoredResultResources"]
