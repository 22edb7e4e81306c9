"""JSON Schema: untrusted schemas bounded, compiled once, their errors put into words."""
