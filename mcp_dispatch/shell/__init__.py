"""Parsing and analysis of shell commands, without running them."""
