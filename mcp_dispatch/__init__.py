"""One MCP server in front of all of a person's tools."""

__version__ = "0.1.0"
