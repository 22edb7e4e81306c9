"""`python -m mcp_dispatch`."""

from mcp_dispatch.cli import main

main()
