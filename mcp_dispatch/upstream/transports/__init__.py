"""Servers that are reached over HTTP: streamable HTTP in both eras, and HTTP+SSE before it."""
