"""Asking a person, and what stands when nobody can be asked."""
