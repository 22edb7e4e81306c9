"""Child processes, which end with the server."""
