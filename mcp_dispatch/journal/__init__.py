"""The journal: one JSON line per call, with secrets redacted."""
