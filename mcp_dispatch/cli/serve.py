"""`mcp-dispatch serve`: the MCP server on standard input and output, or over HTTP."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mcp_dispatch.cli.flags import (
    AskFallbackChoice,
    AskFallbackFlag,
    ClaudeSettingsFlag,
    HttpFlag,
    McpConfigFlag,
    NoAuthFlag,
    PermissionModeFlag,
    SettingsFlag,
    StateDirFlag,
    TokenFileFlag,
    WorkspaceFlag,
)

if TYPE_CHECKING:
    from mcp_dispatch.app.options import AppOptions
    from mcp_dispatch.fs.state_dir import StateDirectory

MAX_LOG_BYTES = 5_000_000
EXIT_SIGNAL_BASE = 128


def serve(
    workspace: WorkspaceFlag = None,
    settings: SettingsFlag = None,
    mcp_config: McpConfigFlag = None,
    state_dir: StateDirFlag = None,
    permission_mode: PermissionModeFlag = None,
    claude_settings: ClaudeSettingsFlag = False,
    ask_fallback: AskFallbackFlag = AskFallbackChoice.DENY,
    http: HttpFlag = None,
    token_file: TokenFileFlag = None,
    no_auth: NoAuthFlag = False,
) -> None:
    """Serve MCP on standard input and output, for a client that starts this command; or over HTTP.

    The address, the token and its file are for --http only.
    """
    import anyio

    from mcp_dispatch.app.options import AppOptions
    from mcp_dispatch.approval.approver import AskFallback
    from mcp_dispatch.cli.serve_http import (
        HttpFlags,
        open_endpoint,
        serve_http,
        take_token_variable,
    )
    from mcp_dispatch.fs.state_dir import StateDirectory
    from mcp_dispatch.model.errors import StartError
    from mcp_dispatch.settings.models import PermissionMode

    flags = HttpFlags(http, token_file, no_auth, take_token_variable())
    options = AppOptions(
        workspace=workspace,
        settings=tuple(settings or ()),
        mcp_config=tuple(mcp_config or ()),
        state_dir=state_dir,
        owns_process=True,
        permission_mode=PermissionMode(permission_mode.value) if permission_mode else None,
        claude_settings=claude_settings,
        ask_fallback=AskFallback(ask_fallback.value),
    )
    log: Path | None = None
    try:
        state = StateDirectory.open(state_dir)
        log = configure_logging(state.logs)
        endpoint = open_endpoint(flags, state.path)
        if endpoint is None:
            code = anyio.run(_serve_stdio, options, state)
        else:
            code = anyio.run(serve_http, options, state, endpoint)
    except StartError as error:
        where = f" (log: {log})" if log else ""
        print(f"mcp-dispatch: {error}{where}", file=sys.stderr)
        code = 1
    raise typer.Exit(code)


def configure_logging(directory: Path) -> Path:
    """Log to a file of this process, and our own warnings to stderr; return the file."""
    path = directory / f"server-{os.getpid()}.log"
    file = RotatingFileHandler(path, maxBytes=MAX_LOG_BYTES, backupCount=1, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    console = logging.StreamHandler()
    console.setLevel(logging.WARNING)
    console.addFilter(lambda record: record.name.startswith("mcp_dispatch"))
    console.setFormatter(logging.Formatter("mcp-dispatch: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[file, console])
    path.chmod(0o600)
    return path


async def _serve_stdio(options: "AppOptions", state: "StateDirectory") -> int:
    import anyio

    from mcp_dispatch.app.app import open_app
    from mcp_dispatch.app.listener import ChangeAnnouncer
    from mcp_dispatch.server import McpServer, StdioSessions
    from mcp_dispatch.wire import sdk
    from mcp_dispatch.wire.stdio_server import open_stdio

    stopped: list[int] = []
    announcer = ChangeAnnouncer()
    async with open_app(options, state, announcer) as app, open_stdio() as stdio:
        sessions = StdioSessions(app.scope, stdio.write_queue, uses_roots=app.wants_roots)
        server = McpServer(app, sessions)
        async with anyio.create_task_group() as tasks:

            def stop(number: int) -> None:
                stopped.append(number)
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch_signals, stop)
            tasks.start_soon(announcer.run, server)
            await sdk.serve(server.server, stdio.reader, stdio.writer)
            tasks.cancel_scope.cancel()
    return EXIT_SIGNAL_BASE + stopped[0] if stopped else 0


async def watch_signals(stop: Callable[[int], None]) -> None:
    """Call `stop` for every signal that asks the server to end, until cancelled."""
    import anyio

    wanted = [signal.SIGINT, signal.SIGTERM]
    if sys.platform == "win32":
        return
    with anyio.open_signal_receiver(*wanted, signal.SIGHUP) as signals:
        async for number in signals:
            logging.getLogger(__name__).info("stopping: %s", signal.Signals(number).name)
            stop(number)
