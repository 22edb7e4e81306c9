"""The MCP face: wire messages to calls and outcomes back to the wire, in both protocol eras."""

from mcp_dispatch.server.backstage import Backstage
from mcp_dispatch.server.face import Face
from mcp_dispatch.server.kept import KeptResults
from mcp_dispatch.server.resources import LocalResources

__all__ = ["Backstage", "Face", "KeptResults", "LocalResources"]
