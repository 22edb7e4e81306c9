"""Opens the transport to a server and closes it at the end."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.upstream.config.model import RemoteEndpoint, ServerConfig, StdioEndpoint
from mcp_dispatch.upstream.transports.base import Transport
from mcp_dispatch.upstream.transports.process import StderrLog, run_server_process
from mcp_dispatch.upstream.transports.stdio import StdioTransport
from mcp_dispatch.wire.sdk_streams import OnInvalidLine


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """Where servers run: their process group, log folder, environment and directory."""

    children: ProcessGroup
    logs: Path
    environ: Mapping[str, str]
    cwd: Path


@asynccontextmanager
async def open_transport(
    config: ServerConfig, context: LaunchContext, log: StderrLog, on_invalid_line: OnInvalidLine
) -> AsyncGenerator[Transport, None]:
    """Open a transport for the duration of the block.

    Raises `ProcessStartError`, `RequestNotExecuted`, `OSError`.
    """
    match config.endpoint:
        case StdioEndpoint() as endpoint:
            async with run_server_process(
                endpoint, context.children, log, context.environ, context.cwd
            ) as process:
                yield StdioTransport(process, on_invalid_line, line_limit=config.max_message)
        case RemoteEndpoint() as endpoint:
            # Imported only for remote servers: the HTTP client takes time to import.
            from mcp_dispatch.upstream.transports.open_http import open_remote_transport

            with log:
                async with open_remote_transport(
                    endpoint, config, context, on_invalid_line
                ) as transport:
                    yield transport
