"""Serving on a socket: uvicorn in front, the SDK's sessions behind, and an end in good order."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

import anyio
import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from mcp_dispatch.server.http.active_requests import ActiveRequests
from mcp_dispatch.server.http.asgi import McpAsgiApp
from mcp_dispatch.server.http.auth import Authenticator
from mcp_dispatch.server.http.backpressure import Backpressure
from mcp_dispatch.server.http.bind import BoundSocket
from mcp_dispatch.server.http.body_limit import BodyLimiter
from mcp_dispatch.settings.models import HttpSettings
from mcp_dispatch.wire.sdk import DispatchServer

GRACE_SECONDS = 8.0
"""How long calls may go on once the server is to end; with the rest of the end, 10 seconds."""

_SHUTDOWN_TIMEOUT_SECONDS = 10
# Longer than clients keep an idle connection: else one is closed just as it is used again.
_KEEP_ALIVE_SECONDS = 65
_MAX_DESCRIPTORS = 8192


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are the command's."""
        yield


async def serve(
    server: DispatchServer,
    bound: BoundSocket,
    authenticator: Authenticator,
    settings: HttpSettings,
    backpressure: Backpressure,
    stopping: anyio.Event,
) -> None:
    """Serves until `stopping` is set and calls have finished or been cancelled."""
    visits = ActiveRequests()
    sessions = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=settings.session_idle_seconds,
        max_request_body_size=settings.max_body_bytes,
        max_sessions=settings.max_sessions,
    )
    front = McpAsgiApp(
        sessions.handle_request, authenticator, BodyLimiter(settings.max_body_bytes), visits
    )
    http = _Server(_build_config(front))
    backpressure.watch(http)
    async with sessions.run(), anyio.create_task_group() as beside:
        beside.start_soon(backpressure.abort_idle_connections)
        async with anyio.create_task_group() as listening:
            listening.start_soon(http.serve, [bound.socket])
            await stopping.wait()
            http.should_exit = True
            await visits.close(GRACE_SECONDS)
        beside.cancel_scope.cancel()


def _build_config(app: McpAsgiApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_SECONDS,
        # Half for connections: the other half is for what the calls open.
        limit_concurrency=_raise_descriptor_limit() // 2,
    )


def _raise_descriptor_limit() -> int:
    """How many files this process may open, after asking for enough."""
    if sys.platform == "win32":
        return _MAX_DESCRIPTORS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return _MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
