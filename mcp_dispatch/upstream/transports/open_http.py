"""Opens the way to a server at an address, and leaves no connection behind."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.upstream.config.model import RemoteEndpoint
from mcp_dispatch.upstream.transports.base import Transport
from mcp_dispatch.upstream.transports.headers import HeadersHelper, HeaderSource
from mcp_dispatch.upstream.transports.http import StreamableHttpTransport
from mcp_dispatch.upstream.transports.http_client import HttpClient
from mcp_dispatch.upstream.transports.sse import SseTransport
from mcp_dispatch.wire.sdk_streams import OnInvalidLine


@asynccontextmanager
async def open_remote_transport(
    endpoint: RemoteEndpoint,
    name: str,
    children: ProcessGroup,
    environ: Mapping[str, str],
    cwd: Path,
    on_noise: OnInvalidLine,
    *,
    connect_timeout: float,
    max_message_bytes: int,
) -> AsyncGenerator[Transport, None]:
    """`connect` bounds, in seconds, how long one connection may take to come about; `limit`, in
    bytes, one message of the server. Raises `NotTaken`."""
    line = endpoint.headers_helper
    helper = HeadersHelper(line, name, endpoint.url, children, environ, cwd) if line else None
    client = HttpClient(endpoint.url, HeaderSource(endpoint.headers, helper), connect_timeout)
    try:
        if endpoint.kind == "sse":
            yield SseTransport(client, on_noise, limit=max_message_bytes)
        else:
            yield StreamableHttpTransport(client, on_noise, limit=max_message_bytes)
    finally:
        await client.aclose()
