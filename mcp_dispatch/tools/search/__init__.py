"""The tools Glob and Grep."""
