"""MCP servers behind ours: their configuration, connection and supervision."""
