"""The tool WebFetch."""
