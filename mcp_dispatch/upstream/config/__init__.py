"""The configuration of upstream servers: entries, files, selection."""
