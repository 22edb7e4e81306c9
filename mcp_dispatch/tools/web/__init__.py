"""`WebFetch`."""
