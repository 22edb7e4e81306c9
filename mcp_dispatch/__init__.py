"""One MCP server in front of all of a person's tools."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_dispatch.library.library import open as open

__version__ = "0.1.0"

__all__ = ["__version__", "open"]


def __getattr__(name: str) -> object:
    """`open` is there when it is asked for: what it needs takes its time to import."""
    if name == "open":
        from mcp_dispatch.library.library import open

        return open
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
