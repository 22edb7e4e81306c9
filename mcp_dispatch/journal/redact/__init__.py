"""Redaction of secrets in journal records."""
