"""JSON Schema: checks and compiles untrusted schemas, and describes validation errors."""
