"""Bytes to messages and back: framing, codec, and our seam to the MCP SDK."""
