"""Opens the way to a server at an address, and leaves no connection behind."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from mcp_dispatch.processes.children import Children
from mcp_dispatch.upstream.config.model import Address
from mcp_dispatch.upstream.transports.base import Transport
from mcp_dispatch.upstream.transports.headers import Headers, HeadersHelper
from mcp_dispatch.upstream.transports.http import StreamableHttp
from mcp_dispatch.upstream.transports.http_client import HttpClient
from mcp_dispatch.upstream.transports.sse import EventStreamHttp
from mcp_dispatch.wire.sdk_streams import OnNoise


@asynccontextmanager
async def remote(
    address: Address,
    name: str,
    children: Children,
    environ: Mapping[str, str],
    cwd: Path,
    on_noise: OnNoise,
    *,
    connect: float,
    limit: int,
) -> AsyncGenerator[Transport, None]:
    """`connect` bounds, in seconds, how long one connection may take to come about; `limit`, in
    bytes, one message of the server. Raises `NotTaken`."""
    line = address.headers_helper
    helper = HeadersHelper(line, name, address.url, children, environ, cwd) if line else None
    client = HttpClient(address.url, Headers(address.headers, helper), connect)
    try:
        if address.kind == "sse":
            yield EventStreamHttp(client, on_noise, limit=limit)
        else:
            yield StreamableHttp(client, on_noise, limit=limit)
    finally:
        await client.aclose()
