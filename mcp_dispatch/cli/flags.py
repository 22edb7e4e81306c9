"""The flags that several commands share."""

import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from mcp_dispatch.app.app import App
    from mcp_dispatch.app.options import AppOptions
    from mcp_dispatch.fs.state_dir import StateDirectory


class PermissionModeChoice(StrEnum):
    """Permission modes as they are spelt on the command line."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    PLAN = "plan"
    DONT_ASK = "dontAsk"
    BYPASS = "bypassPermissions"


class AskFallbackChoice(StrEnum):
    DENY = "deny"
    CLIENT = "client"


WorkspaceFlag = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        metavar="DIR",
        help="The directory to work in. Default: the client's first root, else the current "
        "directory (never /, a system directory or your home).",
    ),
]
SettingsFlag = Annotated[
    list[Path] | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help="A settings.json with permissions and hooks; may be given several times.",
    ),
]
HttpFlag = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Serve streamable HTTP at http://HOST:PORT/mcp instead of standard input and output; "
        "port 0 has one chosen.",
    ),
]
TokenFileFlag = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="The bearer token of HTTP clients, in a file that only you can read. Default: "
        "MCP_DISPATCH_TOKEN, else one that is made and kept in the state directory.",
    ),
]
NoAuthFlag = Annotated[
    bool,
    typer.Option(
        "--no-auth",
        help="Ask HTTP clients for no token; only on a loopback address.",
    ),
]
McpConfigFlag = Annotated[
    list[Path] | None,
    typer.Option(
        "--mcp-config",
        metavar="FILE",
        help="Upstream servers, in the form of .mcp.json; may be given several times.",
    ),
]
StateDirFlag = Annotated[
    Path | None,
    typer.Option("--state-dir", metavar="DIR", help="Where journal, results and logs are kept."),
]
PermissionModeFlag = Annotated[
    PermissionModeChoice | None,
    typer.Option(
        "--permission-mode",
        metavar="MODE",
        help="How much runs without a question: default, acceptEdits, plan, dontAsk or "
        "bypassPermissions.",
    ),
]
ClaudeSettingsFlag = Annotated[
    bool,
    typer.Option(
        "--claude-settings",
        help="Also read Claude Code's own settings: the user's file whole; of the workspace's "
        "files, deny and ask rules, and the rest once trusted.",
    ),
]
AskFallbackFlag = Annotated[
    AskFallbackChoice,
    typer.Option(
        "--ask-fallback",
        metavar="HOW",
        help="When a call needs a question and this client cannot be asked: deny it, or (client) "
        "rely on the client's own confirmation of each call.",
    ),
]

_ResultT = TypeVar("_ResultT")
_EXIT_USAGE = 2


def run_with_app(
    options: "AppOptions", state_dir: Path | None, callback: Callable[["App"], Awaitable[_ResultT]]
) -> _ResultT:
    """Return the result of `callback` with a running application. Exit with 2 if it cannot start."""
    import anyio

    from mcp_dispatch.app.app import open_app
    from mcp_dispatch.cli.serve import configure_logging
    from mcp_dispatch.fs.state_dir import StateDirectory
    from mcp_dispatch.model.errors import StartError

    async def run_app(state: "StateDirectory") -> _ResultT:
        async with open_app(options, state) as app:
            return await callback(app)

    try:
        state = StateDirectory.open(state_dir)
        configure_logging(state.logs)
        return anyio.run(run_app, state)
    except StartError as error:
        exit_with_usage_error(str(error))


def exit_with_usage_error(problem: str) -> NoReturn:
    print(f"mcp-dispatch: {problem}", file=sys.stderr)
    raise typer.Exit(_EXIT_USAGE)
