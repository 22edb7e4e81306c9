"""Which built-ins are offered: made anew for a workspace, with what outlives a change of it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.tools import Tool
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.tools.bash.background import BackgroundTasks
from mcp_dispatch.tools.bash.bash import BashTool
from mcp_dispatch.tools.bash.task_stop import TaskStopTool
from mcp_dispatch.tools.files.edit import EditTool
from mcp_dispatch.tools.files.read import ReadTool
from mcp_dispatch.tools.files.write import WriteTool
from mcp_dispatch.tools.read_result import ReadResultTool
from mcp_dispatch.tools.search.glob import GlobTool
from mcp_dispatch.tools.search.grep import GrepTool
from mcp_dispatch.tools.web.web_fetch import WebFetchTool

BUILT_IN_NAMES = ("Bash", "Edit", "Glob", "Grep", "Read", "TaskStop", "WebFetch", "Write")


class BuiltInTools:
    """`tasks` and the cache of WebFetch live as long as the server."""

    def __init__(
        self,
        children: ProcessGroup,
        scratch: Path,
        tasks: BackgroundTasks,
        results: ResultStore,
        environ: Mapping[str, str],
    ) -> None:
        self._children = children
        self._scratch = scratch
        self._tasks = tasks
        self._results = results
        self._web_fetch = WebFetchTool(children, environ)

    def create_tools(
        self, workspace: Workspace, environ: Mapping[str, str], enabled: Sequence[str] | None
    ) -> list[Tool]:
        """`chosen` names them; None offers all."""
        every: list[Tool] = [
            BashTool(workspace, self._children, self._scratch, environ, self._tasks, self._results),
            EditTool(workspace),
            GlobTool(workspace, environ),
            GrepTool(workspace, self._children, environ),
            ReadTool(workspace),
            TaskStopTool(self._tasks),
            self._web_fetch,
            WriteTool(workspace),
        ]
        if enabled is None:
            return every
        offered = [tool for tool in every if tool.name in enabled]
        # Whoever was given the beginning of a result needs a way to the rest of it.
        return offered if "Read" in enabled else [*offered, ReadResultTool(self._results.directory)]


def describe_unknown_names(names: Iterable[str]) -> list[str]:
    """What a settings file calls a built-in and is none, in words."""
    return [
        f"dispatch.tools: {name!r} is no built-in; they are {', '.join(BUILT_IN_NAMES)}"
        for name in names
        if name not in BUILT_IN_NAMES
    ]
