"""Path rules, hidden paths and protected paths."""
