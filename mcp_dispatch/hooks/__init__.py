"""Hooks: programs, URLs and tools that the user configures to review calls."""
