"""One line per call, secrets redacted."""
