"""Which built-ins are offered: made anew for a workspace, with what outlives a change of it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.tools import Tool
from mcp_dispatch.processes.children import Children
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.tools.bash.background import BackgroundTasks
from mcp_dispatch.tools.bash.bash import Bash
from mcp_dispatch.tools.bash.task_stop import TaskStop
from mcp_dispatch.tools.files.edit import Edit
from mcp_dispatch.tools.files.read import Read
from mcp_dispatch.tools.files.write import Write
from mcp_dispatch.tools.read_result import ReadResult
from mcp_dispatch.tools.search.glob import Glob
from mcp_dispatch.tools.search.grep import Grep
from mcp_dispatch.tools.web.web_fetch import WebFetch

NAMES = ("Bash", "Edit", "Glob", "Grep", "Read", "TaskStop", "WebFetch", "Write")


class BuiltIns:
    """`tasks` and the cache of WebFetch live as long as the server."""

    def __init__(
        self,
        children: Children,
        scratch: Path,
        tasks: BackgroundTasks,
        results: ResultStore,
        environ: Mapping[str, str],
    ) -> None:
        self._children = children
        self._scratch = scratch
        self._tasks = tasks
        self._results = results
        self._web_fetch = WebFetch(children, environ)

    def offered(
        self, workspace: Workspace, environ: Mapping[str, str], chosen: Sequence[str] | None
    ) -> list[Tool]:
        """`chosen` names them; None offers all."""
        every: list[Tool] = [
            Bash(workspace, self._children, self._scratch, environ, self._tasks, self._results),
            Edit(workspace),
            Glob(workspace, environ),
            Grep(workspace, self._children, environ),
            Read(workspace),
            TaskStop(self._tasks),
            self._web_fetch,
            Write(workspace),
        ]
        if chosen is None:
            return every
        offered = [tool for tool in every if tool.name in chosen]
        # Whoever was given the beginning of a result needs a way to the rest of it.
        return offered if "Read" in chosen else [*offered, ReadResult(self._results.directory)]


def unknown_names(chosen: Iterable[str]) -> list[str]:
    """What a settings file calls a built-in and is none, in words."""
    return [
        f"dispatch.tools: {name!r} is no built-in; they are {', '.join(NAMES)}"
        for name in chosen
        if name not in NAMES
    ]
