"""Our exceptions.

MCPDispatchError
├── Refused        ends a call early; caught once, in the dispatcher
└── StartError     stops the start: what is wrong, in one line
    └── ConfigError    file, key, value, expectation
"""

from mcp_dispatch.model.decision import Decision
from mcp_dispatch.model.outcome import Refusal, RefusedBy


class MCPDispatchError(Exception):
    """Base of every exception of ours."""


class Refused(MCPDispatchError):
    """The call is turned down."""

    def __init__(self, by: RefusedBy, message: str, decision: Decision | None = None) -> None:
        super().__init__(message)
        self.refusal = Refusal(by, message, decision)


class StartError(MCPDispatchError):
    """The server cannot start; the message is one line for the person who started it."""


class ConfigError(StartError):
    """A settings or server file is wrong in a way that cannot be skipped."""

    def __init__(self, file: str, key: str, problem: str) -> None:
        where = f"{file}: {key}" if key else file
        super().__init__(f"{where}: {problem}")
