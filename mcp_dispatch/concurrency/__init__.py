"""Primitives for tasks that wait for each other."""
