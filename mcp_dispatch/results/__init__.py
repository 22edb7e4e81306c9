"""Results that fit: measured, previewed, kept on disk."""
