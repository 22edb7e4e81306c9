"""Permission rules, modes and protected paths, and the decision that follows from them."""
