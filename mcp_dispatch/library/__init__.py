"""The pipeline in a program of one's own."""
