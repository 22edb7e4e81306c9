"""Reads pages of the web, and only from addresses that may be reached."""
