"""The stages of one call: one file, one function, one type in, one type out."""
