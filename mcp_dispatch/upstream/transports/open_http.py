"""Opens the transport of a server that is reached over HTTP.

A module of its own, because importing the HTTP client takes time that stdio servers do not need.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp_dispatch.upstream.config.model import RemoteEndpoint, ServerConfig
from mcp_dispatch.upstream.transports.base import Transport
from mcp_dispatch.upstream.transports.headers import HeadersHelper, HeaderSource
from mcp_dispatch.upstream.transports.http import StreamableHttpTransport
from mcp_dispatch.upstream.transports.http_client import HttpClient
from mcp_dispatch.upstream.transports.open import LaunchContext
from mcp_dispatch.upstream.transports.sse import SseTransport
from mcp_dispatch.wire.sdk_streams import OnInvalidLine


@asynccontextmanager
async def open_remote_transport(
    endpoint: RemoteEndpoint,
    config: ServerConfig,
    context: LaunchContext,
    on_invalid_line: OnInvalidLine,
) -> AsyncGenerator[Transport, None]:
    """Open a transport and close all its connections at the end. Raises `RequestNotExecuted`."""
    helper = None
    if endpoint.headers_helper:
        helper = HeadersHelper(
            endpoint.headers_helper,
            config.name,
            endpoint.url,
            context.children,
            context.environ,
            context.cwd,
        )
    headers = HeaderSource(endpoint.headers, helper)
    client = HttpClient(endpoint.url, headers, config.connect_timeout)
    transport = SseTransport if endpoint.kind == "sse" else StreamableHttpTransport
    try:
        yield transport(client, on_invalid_line, limit=config.max_message)
    finally:
        await client.aclose()
