"""Runners for hooks: commands, HTTP requests, upstream tools."""
