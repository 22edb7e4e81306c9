"""`mcp-dispatch serve --http`: serves many clients over HTTP, with a bearer token."""

import logging
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_dispatch.cli.serve import EXIT_SIGNAL_BASE, watch_signals
from mcp_dispatch.model.errors import StartError
from mcp_dispatch.server.http.bind import BoundSocket, ListenAddress, bind
from mcp_dispatch.server.http.token import TOKEN_VARIABLE, BearerToken, find_token

if TYPE_CHECKING:
    from mcp_dispatch.app.app import App
    from mcp_dispatch.app.options import AppOptions
    from mcp_dispatch.fs.state_dir import StateDirectory
    from mcp_dispatch.server import McpServer
    from mcp_dispatch.server.http.auth import Authenticator
    from mcp_dispatch.server.http.backpressure import Backpressure

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpFlags:
    """The flags of HTTP, and the token from the environment."""

    http: str | None
    token_file: Path | None
    no_auth: bool
    token_variable: str | None


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """A bound address. Without a token every program on this machine may connect."""

    bound: BoundSocket
    token: BearerToken | None


def take_token_variable() -> str | None:
    """Remove the token from the environment, so that no child process inherits it."""
    return os.environ.pop(TOKEN_VARIABLE, None)


def open_endpoint(flags: HttpFlags, state_dir: Path) -> HttpEndpoint | None:
    """Bind the address, or return None without --http. Raise `StartError`."""
    if flags.http is None:
        _refuse_without_http(flags)
        return None
    if flags.no_auth and flags.token_file is not None:
        raise StartError("--no-auth and --token-file contradict each other; leave one out")
    address = ListenAddress.parse(flags.http)
    environ = {} if flags.token_variable is None else {TOKEN_VARIABLE: flags.token_variable}
    token = None if flags.no_auth else find_token(flags.token_file, environ, state_dir)
    bound = bind(address)
    if token is None and not bound.is_loopback:
        bound.socket.close()
        raise StartError(
            f"--no-auth is for loopback addresses only, and {address} can be reached from "
            "elsewhere; leave the flag out and give clients the token"
        )
    return HttpEndpoint(bound, token)


def _refuse_without_http(flags: HttpFlags) -> None:
    for flag, given in (("--token-file", flags.token_file), ("--no-auth", flags.no_auth)):
        if given:
            raise StartError(f"{flag} has a meaning only with --http HOST:PORT")


async def serve_http(options: "AppOptions", state: "StateDirectory", endpoint: HttpEndpoint) -> int:
    import anyio

    from mcp_dispatch.app.app import open_app
    from mcp_dispatch.app.listener import ChangeAnnouncer
    from mcp_dispatch.server.http.backpressure import Backpressure
    from mcp_dispatch.server.http.serve import serve

    stopped: list[int] = []
    stopping, backpressure, announcer = anyio.Event(), Backpressure(), ChangeAnnouncer()
    async with open_app(options, state, announcer) as app, anyio.create_task_group() as tasks:

        def stop(number: int) -> None:
            if stopped:  # a second signal stops at once
                tasks.cancel_scope.cancel()
            stopped.append(number)
            stopping.set()

        server, authenticator = (
            _build_server(app, backpressure),
            _build_authenticator(app, endpoint),
        )
        tasks.start_soon(watch_signals, stop)
        tasks.start_soon(announcer.run, server)
        _print_address(endpoint)
        await serve(server.server, endpoint.bound, authenticator, app.http, backpressure, stopping)
        tasks.cancel_scope.cancel()
    return EXIT_SIGNAL_BASE + stopped[0] if stopped else 0


def _build_server(app: "App", backpressure: "Backpressure") -> "McpServer":
    from mcp_dispatch.server import HttpSessions, McpServer

    return McpServer(app, HttpSessions(app.open_scope, app.end_scope, backpressure))


def _build_authenticator(app: "App", endpoint: HttpEndpoint) -> "Authenticator":
    from mcp_dispatch.server.http.auth import Authenticator
    from mcp_dispatch.server.http.host_policy import HostPolicy, find_setting_problems

    http = app.http
    for problem in find_setting_problems(http.allowed_hosts, http.allowed_origins):
        logger.warning("%s; it has no effect", problem)
    host_policy = HostPolicy.from_settings(
        endpoint.bound.requested_host, http.allowed_hosts, http.allowed_origins
    )
    return Authenticator(host_policy, endpoint.token)


def _print_address(endpoint: HttpEndpoint) -> None:
    _print_notice(f"serving MCP at {endpoint.bound.url}")
    token = endpoint.token
    if token is None:
        _print_notice(
            "no token is needed (--no-auth): every program on this machine may call these tools"
        )
    elif token.file is None:
        _print_notice(f"clients need the token that is in {TOKEN_VARIABLE}")
    else:
        quoted = shlex.quote(str(token.file))
        _print_notice(f"clients need the token in {token.file}; show it with: cat {quoted}")
    if not endpoint.bound.is_loopback:
        _print_notice(
            "warning: the traffic is not encrypted, and whoever reads it learns the token; "
            "use it behind a TLS proxy or through an SSH tunnel"
        )


def _print_notice(text: str) -> None:
    print(f"mcp-dispatch: {text}", file=sys.stderr, flush=True)
