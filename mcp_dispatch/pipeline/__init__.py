"""One call from request to outcome."""
