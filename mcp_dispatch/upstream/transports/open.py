"""Opens the way to a server, whichever kind it is, and closes it for good."""

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
    """Where servers run: whose children they are, what they may see, where their logs go."""

    children: ProcessGroup
    logs: Path
    environ: Mapping[str, str]
    cwd: Path


@asynccontextmanager
async def open_transport(
    config: ServerConfig, context: LaunchContext, log: StderrLog, on_noise: OnInvalidLine
) -> AsyncGenerator[Transport, None]:
    """Nothing of it outlives the block. Raises `CannotStart`, `NotTaken`, `OSError`."""
    match config.endpoint:
        case StdioEndpoint() as launch:
            async with run_server_process(
                launch, context.children, log, context.environ, context.cwd
            ) as process:
                yield StdioTransport(process, on_noise, line_limit=config.max_message)
        case RemoteEndpoint() as address:
            # Who has no such server need not wait for what only they use.
            from mcp_dispatch.upstream.transports.open_http import open_remote_transport

            with log:
                async with open_remote_transport(
                    address,
                    *(config.name, context.children, context.environ, context.cwd, on_noise),
                    connect_timeout=config.connect_timeout,
                    max_message_bytes=config.max_message,
                ) as transport:
                    yield transport
