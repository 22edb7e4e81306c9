"""The names that `mcp_dispatch` exports, and the modules that importing it loads."""

import mcp_dispatch

EXPORTED = [
    "Approved",
    "AskCallback",
    "CallState",
    "ConfigError",
    "Declined",
    "Dispatch",
    "MCPDispatchError",
    "OnProgress",
    "OnState",
    "PermissionMode",
    "Question",
    "StartError",
    "StreamingExecutor",
    "__version__",
    "escape_control_characters",
    "open",
]


def test_the_package_exports_exactly_the_listed_names() -> None:
    assert mcp_dispatch.__all__ == EXPORTED


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(mcp_dispatch, "close")
