"""Settings files: layers, parsing, merging, trust."""
