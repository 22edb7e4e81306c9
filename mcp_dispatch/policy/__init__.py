"""Rules, modes, protected paths, and the decision they add up to."""
