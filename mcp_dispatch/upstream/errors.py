"""Exceptions of requests to upstream servers.

MCPDispatchError
└── UpstreamError
    ├── HandshakeFailed         the server answers, but no common protocol was found
    ├── ConnectionLost          the connection ended while a request was open
    ├── RequestLost             one request got no answer; the connection is still open
    ├── RequestNotExecuted      one request was refused, and certainly not executed
    │   └── ServerUnreachable   no connection to the server can be opened
    └── CallFailed              a request failed, with a message for the model
"""

from mcp_dispatch.model.errors import MCPDispatchError


class UpstreamError(MCPDispatchError):
    """Base class. The message is a clause about the server, such as "refused 'initialize': …"."""


class HandshakeFailed(UpstreamError):
    """The two sides share no protocol version, or the server sent an invalid answer."""


class ConnectionLost(UpstreamError):
    """The connection ended before the answer. Whether the request was executed is unknown."""


class RequestLost(UpstreamError):
    """The request gets no answer. Whether it was executed is unknown."""


class RequestNotExecuted(UpstreamError):
    """The server has certainly not executed the request, so it may be sent once more."""


class ServerUnreachable(RequestNotExecuted):
    """No connection to the server can be opened."""


class CallFailed(UpstreamError):
    """A request failed; the message is written for the model."""
