"""`Read`, `Write`, `Edit` and the notebook tool."""
