"""The tools Read, Write and Edit."""
