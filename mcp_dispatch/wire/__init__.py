"""Bytes to messages and back: framing, codec, and the adapter to the MCP SDK."""
