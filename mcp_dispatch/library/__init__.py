"""The Python library: the pipeline for an agent loop."""
