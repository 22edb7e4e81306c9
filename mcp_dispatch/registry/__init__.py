"""The registry of tools: names, order, deferral."""
