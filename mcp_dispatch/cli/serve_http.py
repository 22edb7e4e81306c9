"""`mcp-dispatch serve --http`: the same server for many clients, on an address with a token."""

import logging
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_dispatch.cli.serve import STOPPED_BY_SIGNAL, announce_changes, on_signal
from mcp_dispatch.model.errors import StartError
from mcp_dispatch.server.http.bind import Address, Bound, bind
from mcp_dispatch.server.http.token import VARIABLE, Token, find_token

if TYPE_CHECKING:
    from mcp_dispatch.app.app import App
    from mcp_dispatch.app.options import Options
    from mcp_dispatch.fs.state_dir import StateDirectory
    from mcp_dispatch.server import Face
    from mcp_dispatch.server.http.auth import Door
    from mcp_dispatch.server.http.backpressure import Traffic

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpFlags:
    """What was said about HTTP. `variable` is the token from the environment."""

    http: str | None
    token_file: Path | None
    no_auth: bool
    variable: str | None


@dataclass(frozen=True, slots=True)
class Entrance:
    """A bound address; without a token everybody on this machine may come in."""

    bound: Bound
    token: Token | None


def take_variable() -> str | None:
    """The token from the environment, which no command of ours gets to see."""
    return os.environ.pop(VARIABLE, None)


def open_entrance(flags: HttpFlags, state: Path) -> Entrance | None:
    """None where HTTP was not asked for. Raises `StartError`."""
    if flags.http is None:
        _refuse_without_http(flags)
        return None
    if flags.no_auth and flags.token_file is not None:
        raise StartError("--no-auth and --token-file contradict each other; leave one out")
    address = Address.parse(flags.http)
    environ = {} if flags.variable is None else {VARIABLE: flags.variable}
    token = None if flags.no_auth else find_token(flags.token_file, environ, state)
    bound = bind(address)
    if token is None and not bound.is_loopback:
        bound.socket.close()
        raise StartError(
            f"--no-auth is for loopback addresses only, and {address} can be reached from "
            "elsewhere; leave the flag out and give clients the token"
        )
    return Entrance(bound, token)


def _refuse_without_http(flags: HttpFlags) -> None:
    for flag, given in (("--token-file", flags.token_file), ("--no-auth", flags.no_auth)):
        if given:
            raise StartError(f"{flag} has a meaning only with --http HOST:PORT")


async def serve_http(options: "Options", state: "StateDirectory", entrance: Entrance) -> int:
    import anyio

    from mcp_dispatch.app.app import open_app
    from mcp_dispatch.server.http.backpressure import Traffic
    from mcp_dispatch.server.http.serve import serve

    stopped: list[int] = []
    stopping, traffic = anyio.Event(), Traffic()
    async with open_app(options, state) as app, anyio.create_task_group() as tasks:

        def stop(number: int) -> None:
            if stopped:  # asked twice: now
                tasks.cancel_scope.cancel()
            stopped.append(number)
            stopping.set()

        face, door = _face(app, traffic), _door(app, entrance)
        tasks.start_soon(on_signal, stop)
        tasks.start_soon(announce_changes, app, face)
        _announce(entrance)
        await serve(face.server, entrance.bound, door, app.http, traffic, stopping)
        tasks.cancel_scope.cancel()
    return STOPPED_BY_SIGNAL + stopped[0] if stopped else 0


def _face(app: "App", traffic: "Traffic") -> "Face":
    from mcp_dispatch.server import Backstage, Face, KeptResults
    from mcp_dispatch.server.http.scopes import Scopes

    return Face(
        Backstage(
            dispatcher=app.dispatcher,
            scope_of=Scopes(app.open_scope, app.end_scope).of,
            definitions=app.definitions,
            input_schema=app.input_schema,
            expect=app.expect,
            # Several clients share this server; the roots of one are none of the others'.
            use_roots=None,
            room=traffic.room,
            ask_timeout=app.ask_timeout,
            local_resources=KeptResults(app.results.directory),
            instructions=app.offering.instructions,
            offered=app.offered,
        )
    )


def _door(app: "App", entrance: Entrance) -> "Door":
    from mcp_dispatch.server.http.auth import Door
    from mcp_dispatch.server.http.host_policy import Names, problems

    http = app.http
    for problem in problems(http.allowed_hosts, http.allowed_origins):
        logger.warning("%s; it has no effect", problem)
    names = Names.of(entrance.bound.named, http.allowed_hosts, http.allowed_origins)
    return Door(names, entrance.token)


def _announce(entrance: Entrance) -> None:
    _say(f"serving MCP at {entrance.bound.url}")
    token = entrance.token
    if token is None:
        _say("no token is needed (--no-auth): every program on this machine may call these tools")
    elif token.file is None:
        _say(f"clients need the token that is in {VARIABLE}")
    else:
        shown = shlex.quote(str(token.file))
        _say(f"clients need the token in {token.file}; show it with: cat {shown}")
    if not entrance.bound.is_loopback:
        _say(
            "warning: the traffic is not encrypted, and whoever reads it learns the token; "
            "use it behind a TLS proxy or through an SSH tunnel"
        )


def _say(text: str) -> None:
    print(f"mcp-dispatch: {text}", file=sys.stderr, flush=True)
