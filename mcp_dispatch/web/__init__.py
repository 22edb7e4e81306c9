"""Fetches web pages, and connects only to permitted addresses."""
