"""What anyone can measure again: each file here is a command."""
