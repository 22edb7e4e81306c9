"""Our exceptions.

MCPDispatchError
├── Refused        ends a call early; caught in the dispatcher only
└── StartError     prevents the start; the message is one line
    └── ConfigError    file, key, value, expectation
"""

from mcp_dispatch.model.decision import Decision
from mcp_dispatch.model.outcome import Refusal, RefusedBy


class MCPDispatchError(Exception):
    """Base class of all our exceptions."""


class Refused(MCPDispatchError):
    """The call is refused before its tool runs."""

    def __init__(self, by: RefusedBy, message: str, decision: Decision | None = None) -> None:
        super().__init__(message)
        self.refusal = Refusal(by, message, decision)


class StartError(MCPDispatchError):
    """The server cannot start. The message is one line for the operator."""


class ConfigError(StartError):
    """A settings file or server file has an error that cannot be skipped."""

    def __init__(self, file: str, key: str, problem: str) -> None:
        where = f"{file}: {key}" if key else file
        super().__init__(f"{where}: {problem}")
