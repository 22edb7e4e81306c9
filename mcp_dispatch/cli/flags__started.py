"""For commands that look at what a server would have: the application, started and ended again."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from mcp_dispatch.app.app import App
    from mcp_dispatch.app.options import Options
    from mcp_dispatch.fs.state_dir import StateDirectory

_Seen = TypeVar("_Seen")
_WRONG = 2


def look(
    options: "Options", state_dir: Path | None, work: Callable[["App"], Awaitable[_Seen]]
) -> _Seen:
    """What `work` sees of the application. Exits with 2 where it cannot be started."""
    import anyio

    from mcp_dispatch.app.app import open_app
    from mcp_dispatch.cli.serve import log_to
    from mcp_dispatch.fs.state_dir import StateDirectory
    from mcp_dispatch.model.errors import StartError

    async def started(state: "StateDirectory") -> _Seen:
        async with open_app(options, state) as app:
            return await work(app)

    try:
        state = StateDirectory.open(state_dir)
        log_to(state.logs)
        return anyio.run(started, state)
    except StartError as error:
        wrong(str(error))


def wrong(problem: str) -> NoReturn:
    print(f"mcp-dispatch: {problem}", file=sys.stderr)
    raise typer.Exit(_WRONG)
