"""`Bash`: the process, its background tasks and its result."""
