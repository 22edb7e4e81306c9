"""Transports to upstream servers: stdio, streamable HTTP, HTTP+SSE."""
