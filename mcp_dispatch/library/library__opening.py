"""`mcp_dispatch.open`: the pipeline in a program of one's own."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from mcp_dispatch.app.app import App, open_app
from mcp_dispatch.app.options import Options
from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.library.library import Ask, Backstage, Dispatch
from mcp_dispatch.settings.models import PermissionMode

Place = str | PathLike[str]


@asynccontextmanager
async def open(
    *,
    workspace: Place | None = None,
    settings: Place | Sequence[Place] = (),
    mcp_config: Place | Sequence[Place] = (),
    state_dir: Place | None = None,
    permission_mode: PermissionMode | str | None = None,
    claude_settings: bool = False,
    environ: Mapping[str, str] | None = None,
    ask: Ask | None = None,
) -> AsyncGenerator[Dispatch, None]:
    """The tools of a workspace behind the pipeline, for as long as the block lasts.

    The arguments are the flags of `mcp-dispatch serve`. `ask` is called where a rule or nobody's
    decision wants a person to say yes; without it such a call is denied. Servers have ten seconds
    to come up; later ones are listed once they are there.

    At the end, calls that still run are stopped, but for tools that finish what they began.

    Raises `StartError` where the arguments, or files that they name, cannot be used.
    """
    options = Options(
        workspace=Path(workspace) if workspace is not None else None,
        settings=_paths(settings),
        mcp_config=_paths(mcp_config),
        permission_mode=PermissionMode(permission_mode) if permission_mode else None,
        claude_settings=claude_settings,
    )
    if environ is not None:
        options = replace(options, environ=environ)
    state = StateDirectory.open(Path(state_dir) if state_dir is not None else None)
    failure: Exception | None = None
    async with open_app(options, state) as app, anyio.create_task_group() as tasks:
        await app.definitions()
        try:
            yield Dispatch(_backstage(app, tasks, ask))
        except Exception as error:
            # A task group would wrap it; to the caller it is their own exception.
            failure = error
        finally:
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _backstage(app: App, tasks: TaskGroup, ask: Ask | None) -> Backstage:
    return Backstage(app.dispatcher, app.scope, tasks, lambda: app.listed(app.scope), ask)


def _paths(given: Place | Sequence[Place]) -> tuple[Path, ...]:
    if isinstance(given, str | PathLike):
        return (Path(given),)
    return tuple(Path(each) for each in given)
