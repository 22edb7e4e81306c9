"""Opens the way to a server, whichever kind it is, and closes it for good."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.processes.children import Children
from mcp_dispatch.upstream.config.model import Address, Launch, ServerConfig
from mcp_dispatch.upstream.transports.base import Transport
from mcp_dispatch.upstream.transports.process import StderrLog, running
from mcp_dispatch.upstream.transports.stdio import StdioTransport
from mcp_dispatch.wire.sdk_streams import OnNoise


@dataclass(frozen=True, slots=True)
class Place:
    """Where servers run: whose children they are, what they may see, where their logs go."""

    children: Children
    logs: Path
    environ: Mapping[str, str]
    cwd: Path


@asynccontextmanager
async def opened(
    config: ServerConfig, place: Place, log: StderrLog, on_noise: OnNoise
) -> AsyncGenerator[Transport, None]:
    """Nothing of it outlives the block. Raises `CannotStart`, `NotTaken`, `OSError`."""
    match config.reach:
        case Launch() as launch:
            async with running(launch, place.children, log, place.environ, place.cwd) as process:
                yield StdioTransport(process, on_noise, line_limit=config.max_message)
        case Address() as address:
            # Who has no such server need not wait for what only they use.
            from mcp_dispatch.upstream.transports.open_http import remote

            with log:
                async with remote(
                    address,
                    *(config.name, place.children, place.environ, place.cwd, on_noise),
                    connect=config.connect_timeout,
                    limit=config.max_message,
                ) as transport:
                    yield transport
