"""Searches thousands of tools by a few words, without a model."""
