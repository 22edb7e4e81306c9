"""`Glob` and `Grep`."""
