"""The MCP face: wire messages to calls and outcomes back to the wire, in both protocol eras."""

from mcp_dispatch.server.backend import Backstage
from mcp_dispatch.server.resources import KeptResults, LocalResources
from mcp_dispatch.server.server import Face

__all__ = ["Backstage", "Face", "KeptResults", "LocalResources"]
