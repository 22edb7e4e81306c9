"""Which upstream servers there are: entries, files, selection."""
