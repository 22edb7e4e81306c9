"""Finding the right tool among thousands from a few words, without a model."""
