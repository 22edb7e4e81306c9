"""Exceptions of requests to upstream servers.

MCPDispatchError
└── UpstreamError
    ├── HandshakeFailed    the server answers, but no common protocol was found
    ├── ConnectionLost     the connection ended while a request was open
    ├── RequestLost        one request got no answer; the connection is still open
    ├── NotTaken           one request was turned away, and surely not carried out
    │   └── Unreachable    there is no connection to be had, for anybody
    └── CallFailed         a call has no answer, in words for the model
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
