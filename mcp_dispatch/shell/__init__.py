"""Reading shell commands without running them."""
