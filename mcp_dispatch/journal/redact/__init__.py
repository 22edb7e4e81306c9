"""Secrets are taken out of what is written down."""
