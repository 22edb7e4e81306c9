"""Serves MCP on a socket: uvicorn, the ASGI stack, the SDK's sessions, and a graceful shutdown."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

import anyio
import uvicorn
from starlette.types import ASGIApp

from mcp_dispatch.server.http.active_requests import ActiveRequests
from mcp_dispatch.server.http.asgi import build_app
from mcp_dispatch.server.http.auth import Authenticator
from mcp_dispatch.server.http.backpressure import Backpressure
from mcp_dispatch.server.http.bind import BoundSocket
from mcp_dispatch.server.http.body_limit import BodyLimiter
from mcp_dispatch.settings.models import HttpSettings
from mcp_dispatch.wire.sdk import DispatchServer, StreamableHTTPSessionManager

GRACE_SECONDS = 8.0
"""How long calls may continue after a stop request; the whole shutdown takes at most 10 seconds."""

_SHUTDOWN_TIMEOUT_SECONDS = 10
# Longer than clients keep an idle connection: else it may be closed just as it is reused.
_KEEP_ALIVE_SECONDS = 65
_MAX_DESCRIPTORS = 8192


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Do nothing: the command handles signals."""
        yield


async def serve(
    server: DispatchServer,
    bound: BoundSocket,
    authenticator: Authenticator,
    settings: HttpSettings,
    backpressure: Backpressure,
    stopping: anyio.Event,
) -> None:
    """Serve until `stopping` is set and all calls have finished or been cancelled."""
    active_requests = ActiveRequests()
    sessions = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=settings.session_idle_seconds,
        max_request_body_size=settings.max_body_bytes,
        max_sessions=settings.max_sessions,
    )
    body_limiter = BodyLimiter(settings.max_body_bytes)
    app = build_app(sessions.handle_request, authenticator, body_limiter, active_requests)
    http = _Server(_build_config(app))
    backpressure.watch(http)
    async with sessions.run(), anyio.create_task_group() as background:
        background.start_soon(backpressure.abort_idle_connections)
        async with anyio.create_task_group() as serving:
            serving.start_soon(http.serve, [bound.socket])
            await stopping.wait()
            http.should_exit = True
            await active_requests.close(GRACE_SECONDS)
        background.cancel_scope.cancel()


def _build_config(app: ASGIApp) -> uvicorn.Config:
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
        # Half of the descriptors is for connections, the other half for files of the calls.
        limit_concurrency=_raise_descriptor_limit() // 2,
    )


def _raise_descriptor_limit() -> int:
    """Raise the limit of open files if it is low, and return it."""
    if sys.platform == "win32":
        return _MAX_DESCRIPTORS
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        return target
    return _MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
