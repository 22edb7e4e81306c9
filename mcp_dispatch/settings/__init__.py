"""The settings files: their shape, their layers, their origin."""
