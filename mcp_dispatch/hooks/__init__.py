"""Scripts of the user's that review calls."""
