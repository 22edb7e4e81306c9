"""How a hook is run: as a command, over HTTP, as a tool of an upstream."""
