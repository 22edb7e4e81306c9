"""Shell commands: what they touch, and the patterns that match them."""
