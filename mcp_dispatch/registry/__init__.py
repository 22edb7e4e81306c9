"""The one list of tools: assembled, named, deduped."""
