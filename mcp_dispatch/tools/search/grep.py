"""Grep: searches the contents of files with ripgrep."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

from anyio import fail_after, to_thread

from mcp_dispatch.fs.safe_open import FileError
from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    ToolResult,
    build_error_result,
    build_text_result,
    hide_nothing,
)
from mcp_dispatch.processes.child import ProcessStartError
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.results.locks import touch_stored_file
from mcp_dispatch.tools.base import BuiltInTool, declare_read_only_tool
from mcp_dispatch.tools.search.grep_result import GrepView, build_answer, create_reader
from mcp_dispatch.tools.search.ripgrep import RipgrepExit, find_ripgrep, run_ripgrep
from mcp_dispatch.tools.search.ripgrep_json import RipgrepReader
from mcp_dispatch.tools.search.ripgrep_request import (
    DEFAULT_HEAD_LIMIT,
    MAX_CONTEXT_LINES,
    build_options,
    parse_request,
)
from mcp_dispatch.tools.search.root import (
    SearchFilter,
    SearchRoot,
    open_search_root,
    resolve_search_root,
)

SEARCH_SECONDS = 20.0
RESULT_LIMIT = 20_000
_GRACE_SECONDS = 5.0
_MAX_LISTED_PROBLEMS = 3
# ripgrep reads the user's git configuration to find the global ignore file.
_PASSED_VARIABLES = ("HOME", "XDG_CONFIG_HOME")


def _build_context_schema(description: str) -> Json:
    return {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_CONTEXT_LINES,
        "description": f"{description}; for output_mode content",
    }


_DECLARATION = declare_read_only_tool(
    name="Grep",
    title="Search in files",
    description=(
        "Searches the contents of files with ripgrep.\n"
        "- The pattern is a regular expression of ripgrep: escape braces that are meant as such"
        " (`interface\\{\\}`).\n"
        "- output_mode: `files_with_matches` (default) lists the files, the most recently changed"
        " first; `content` shows the lines; `count` tells how many lines match in each file.\n"
        "- Files that .gitignore names are passed over, unless path or glob names them.\n"
        f"- {DEFAULT_HEAD_LIMIT} entries are shown at a time; go on with offset."
    ),
    properties={
        "pattern": {"type": "string", "description": "The regular expression"},
        "path": {
            "type": "string",
            "minLength": 1,
            "description": "The file or directory to search; the current directory if left out",
        },
        "glob": {"type": "string", "description": "Which files, as in *.js or *.{ts,tsx}"},
        "type": {
            "type": "string",
            "description": "Which kind of files, as ripgrep calls it: js, py, rust, go, java",
        },
        "output_mode": {
            "type": "string",
            "enum": ["content", "files_with_matches", "count"],
            "description": "What to show; files_with_matches if left out",
        },
        "-A": _build_context_schema("Lines to show after each match"),
        "-B": _build_context_schema("Lines to show before each match"),
        "-C": _build_context_schema("Lines to show before and after each match"),
        "context": _build_context_schema("The same as -C"),
        "-n": {
            "type": "boolean",
            "description": "Show line numbers, as is the default; for output_mode content",
        },
        "-i": {"type": "boolean", "description": "Ignore case"},
        "-o": {
            "type": "boolean",
            "description": "Show only what matches, each match by itself, or count matches",
        },
        "multiline": {
            "type": "boolean",
            "description": "Let a match span lines, and . stand for a line break too",
        },
        "head_limit": {
            "type": "integer",
            "minimum": 0,
            "description": f"How many entries to show; {DEFAULT_HEAD_LIMIT} if left out, 0 for all",
        },
        "offset": {"type": "integer", "minimum": 0, "description": "How many entries to skip"},
    },
    required=("pattern",),
    result_limit=RESULT_LIMIT,
)


class GrepTool(BuiltInTool):
    """`ripgrep` is the path of the executable; by default it is searched for on first use."""

    def __init__(
        self,
        workspace: Workspace,
        children: ProcessGroup,
        environ: Mapping[str, str] = os.environ,
        *,
        ripgrep: str | None = None,
        seconds: float = SEARCH_SECONDS,
    ) -> None:
        super().__init__(_DECLARATION)
        self._workspace = workspace
        self._children = children
        self._search_path = environ.get("PATH", "")
        self._env = {name: environ[name] for name in _PASSED_VARIABLES if name in environ}
        self._configured_ripgrep = ripgrep
        self._seconds = seconds

    @cached_property
    def _ripgrep(self) -> str:
        return self._configured_ripgrep or find_ripgrep(self._search_path)

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        """Open no file: whether it exists is disclosed only after the call is permitted."""
        parse_request(arguments)
        given = arguments.get("path") or context.scope.cwd or self._workspace.require()
        path = self._workspace.resolve(str(given), context.scope.cwd)
        if not context.scope.is_delivered(str(to_real_path(path))):
            self._workspace.require()
        return CheckResult({**arguments, "path": str(path)})

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        path = Path(str(arguments["path"]))
        if context.scope.is_delivered(str(path)):
            touch_stored_file(path)
        try:
            with fail_after(_GRACE_SECONDS):
                root = await to_thread.run_sync(
                    resolve_search_root, path, context, abandon_on_cancel=True
                )
            return await self._search(arguments, root, context)
        except (FileError, ProcessStartError) as problem:
            return build_error_result(str(problem))
        except TimeoutError:
            return build_error_result(
                f"{path} could not be searched: the file system does not answer."
            )

    async def _search(
        self, arguments: JsonObject, root: SearchRoot, context: CallContext
    ) -> ToolResult:
        request = parse_request(arguments)
        directory = context.scope.cwd or self._workspace.root
        # The rules permitted this stored result; they hide the directory in which it lies.
        is_stored_result = root.is_file and context.scope.is_delivered(str(root.real))
        is_hidden = hide_nothing if is_stored_result else context.is_hidden
        search_filter = SearchFilter(root, is_hidden)
        reader = create_reader(request, search_filter)
        with ExitStack() as resources:
            descriptor = await to_thread.run_sync(resources.enter_context, open_search_root(root))
            ripgrep_exit = await run_ripgrep(
                self._children,
                [self._ripgrep, *build_options(request, root, directory)],
                _resolve_directory(descriptor, root),
                self._env,
                reader,
                self._seconds,
            )
        view = GrepView(request, root, directory)
        return await to_thread.run_sync(
            self._build_result, reader, ripgrep_exit, view, search_filter
        )

    def _build_result(
        self,
        reader: RipgrepReader,
        ripgrep_exit: RipgrepExit,
        view: GrepView,
        search_filter: SearchFilter,
    ) -> ToolResult:
        problems = self._describe_problems(ripgrep_exit, view, search_filter)
        if problems and not reader.has_results:
            return build_error_result("\n".join(problems))
        answer = build_answer(view, reader)
        notes = [*answer.notes, *(f"({problem})" for problem in problems)]
        response = answer.response
        if ripgrep_exit.timed_out:
            response = {**response, "timedOut": True}
        text = "\n\n".join([answer.text, *(["\n".join(notes)] if notes else [])])
        return build_text_result(text, response=response)

    def _describe_problems(
        self, ripgrep_exit: RipgrepExit, view: GrepView, search_filter: SearchFilter
    ) -> list[str]:
        """Return one sentence for each reason why the search is incomplete."""
        sentences: list[str] = []
        if ripgrep_exit.failure:
            sentences.append(f"ripgrep failed: {ripgrep_exit.failure}")
        if ripgrep_exit.timed_out:
            sentences.append(
                f"The search was stopped after {self._seconds:g} seconds and is not complete."
                " Give a narrower path, glob or type."
            )
        problems = ripgrep_exit.list_problems(search_filter)
        if problems:
            listed = ", ".join(
                f"{view.format_name(problem.relative)}: {problem.reason}"
                for problem in problems[:_MAX_LISTED_PROBLEMS]
            )
            rest = len(problems) - _MAX_LISTED_PROBLEMS
            sentences.append(
                f"Could not be searched: {listed}" + (f", and {rest} more" if rest > 0 else "")
            )
        return sentences


def _resolve_directory(descriptor: int, root: SearchRoot) -> Path:
    """Return the path of the open directory in /proc if there is one: it cannot be swapped."""
    open_directory = Path(f"/proc/self/fd/{descriptor}")
    return open_directory if open_directory.is_dir() else root.directory
