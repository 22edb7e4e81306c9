"""One request to a server, and what the server asks meanwhile."""
