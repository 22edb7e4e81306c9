"""Creation of the built-in tools of a workspace."""

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
    """Creates the tools again for each workspace.

    `tasks` and the page cache of WebFetch are kept: they live as long as the server.
    """

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
        """Return the tools whose names are in `enabled`; all of them if it is None."""
        tools: list[Tool] = [
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
            return tools
        selected = [tool for tool in tools if tool.name in enabled]
        # A client that receives the preview of a stored result needs a way to read the rest.
        return (
            selected if "Read" in enabled else [*selected, ReadResultTool(self._results.directory)]
        )


def describe_unknown_names(names: Iterable[str]) -> list[str]:
    """Return a problem message for each name that no built-in tool has."""
    return [
        f"dispatch.tools: {name!r} is no built-in; they are {', '.join(BUILT_IN_NAMES)}"
        for name in names
        if name not in BUILT_IN_NAMES
    ]
