"""`mcp-dispatch approvals`: the command and its screen."""
