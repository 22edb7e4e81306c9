"""The MCP server: translates protocol messages to calls and outcomes back, in both protocol eras."""

from mcp_dispatch.server.backend import Backend
from mcp_dispatch.server.server import McpServer
from mcp_dispatch.server.sessions import HttpSessions, StdioSessions

__all__ = ["Backend", "HttpSessions", "McpServer", "StdioSessions"]
