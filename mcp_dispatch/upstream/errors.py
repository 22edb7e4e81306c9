"""What can go wrong between us and an upstream.

MCPDispatchError
└── UpstreamError
    ├── HandshakeFailed    the server answers, but we cannot speak with it
    ├── ConnectionLost     the server went away while something was asked of it
    ├── RequestLost        one request got no answer; the connection stands
    ├── NotTaken           one request was turned away, and surely not carried out
    │   └── Unreachable    there is no connection to be had, for anybody
    └── CallFailed         a call has no answer, in words for the model
"""

from mcp_dispatch.model.errors import MCPDispatchError


class UpstreamError(MCPDispatchError):
    """Base; the message is a clause about the server, as in "refused 'initialize': …"."""


class HandshakeFailed(UpstreamError):
    """There is no protocol that both sides speak, or the answer makes no sense."""


class ConnectionLost(UpstreamError):
    """The connection ended before the answer came. Whether the request arrived is unknown."""


class RequestLost(UpstreamError):
    """No answer will come to this request. Whether it was carried out is unknown."""


class RequestNotExecuted(UpstreamError):
    """The request was surely not carried out, so that it may be sent once more."""


class ServerUnreachable(RequestNotExecuted):
    """Nothing listens where the server should be."""


class CallFailed(UpstreamError):
    """A call got no answer; the message is for the model."""
