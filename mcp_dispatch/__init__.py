"""One MCP server in front of all of a person's tools. This module is the public API; the types
of content blocks are in `mcp_dispatch.blocks`.

Names are imported on first use, so `import mcp_dispatch` imports only the standard library.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_dispatch.library.library import AskCallback as AskCallback
    from mcp_dispatch.library.library import Dispatch as Dispatch
    from mcp_dispatch.library.library import OnProgress as OnProgress
    from mcp_dispatch.library.library import OnState as OnState
    from mcp_dispatch.library.library import StreamingExecutor as StreamingExecutor
    from mcp_dispatch.library.library import open as open
    from mcp_dispatch.model.approval import Approved as Approved
    from mcp_dispatch.model.approval import Declined as Declined
    from mcp_dispatch.model.approval import Question as Question
    from mcp_dispatch.model.errors import ConfigError as ConfigError
    from mcp_dispatch.model.errors import MCPDispatchError as MCPDispatchError
    from mcp_dispatch.model.errors import StartError as StartError
    from mcp_dispatch.model.text import escape_control_characters as escape_control_characters
    from mcp_dispatch.pipeline.batch import CallState as CallState
    from mcp_dispatch.settings.models import PermissionMode as PermissionMode

__version__ = "0.1.0"

_MODULES = {
    "Approved": "mcp_dispatch.model.approval",
    "AskCallback": "mcp_dispatch.library.library",
    "CallState": "mcp_dispatch.pipeline.batch",
    "ConfigError": "mcp_dispatch.model.errors",
    "Declined": "mcp_dispatch.model.approval",
    "Dispatch": "mcp_dispatch.library.library",
    "MCPDispatchError": "mcp_dispatch.model.errors",
    "OnProgress": "mcp_dispatch.library.library",
    "OnState": "mcp_dispatch.library.library",
    "PermissionMode": "mcp_dispatch.settings.models",
    "Question": "mcp_dispatch.model.approval",
    "StartError": "mcp_dispatch.model.errors",
    "StreamingExecutor": "mcp_dispatch.library.library",
    "escape_control_characters": "mcp_dispatch.model.text",
    "open": "mcp_dispatch.library.library",
}

__all__ = [
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


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
