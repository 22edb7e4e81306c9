"""Grep: the contents of files, searched by ripgrep."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path

from anyio import fail_after, to_thread

from mcp_dispatch.fs.safe_open import FileError
from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    Interrupt,
    ToolResult,
    build_error_result,
    build_text_result,
    hide_nothing,
)
from mcp_dispatch.processes.child import ProcessStartError
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.results.locks import touch_stored_file
from mcp_dispatch.tools.base import BuiltInTool, ToolDeclaration
from mcp_dispatch.tools.search import grep_result
from mcp_dispatch.tools.search.grep_result import GrepAnswer, GrepView
from mcp_dispatch.tools.search.ripgrep import RipgrepExit, find_ripgrep, run_ripgrep
from mcp_dispatch.tools.search.ripgrep_json import (
    CountReader,
    FileReader,
    LineReader,
    RipgrepReader,
)
from mcp_dispatch.tools.search.ripgrep_request import (
    DEFAULT_HEAD_LIMIT,
    MAX_CONTEXT_LINES,
    GrepOutputMode,
    build_options,
    parse_request,
)
from mcp_dispatch.tools.search.root import (
    SearchFilter,
    SearchRoot,
    format_relative_path,
    open_search_root,
    resolve_search_root,
)

SEARCH_SECONDS = 20.0
RESULT_LIMIT = 20_000
_GRACE_SECONDS = 5.0
_MAX_LISTED_PROBLEMS = 3
# ripgrep asks git's own settings which files the user never wants to see.
_PASSED_VARIABLES = ("HOME", "XDG_CONFIG_HOME")


def _build_context_schema(description: str) -> Json:
    return {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_CONTEXT_LINES,
        "description": f"{description}; for output_mode content",
    }


_DECLARATION = ToolDeclaration(
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
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=False,
    interrupt=Interrupt.CANCEL,
    result_limit=RESULT_LIMIT,
)


class GrepTool(BuiltInTool):
    """`ripgrep` is the program to use, found beside us if left out."""

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
        """Looks at no file: whether there is one is told only to who may read it."""
        parse_request(arguments)
        named = arguments.get("path") or context.scope.cwd or self._workspace.require()
        path = self._workspace.resolve(str(named), context.scope.cwd)
        if not context.scope.is_delivered(str(to_real_path(path))):
            self._workspace.require()
        return CheckResult({**arguments, "path": str(path)})

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        path = Path(str(arguments["path"]))
        if context.scope.is_delivered(str(path)):
            touch_stored_file(path)
        try:
            with fail_after(_GRACE_SECONDS):
                place = await to_thread.run_sync(
                    resolve_search_root, path, context, abandon_on_cancel=True
                )
            return await self._search(arguments, place, context)
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
        # Rules were asked about the one file that is searched; our own directory hides the others.
        kept = root.is_file and context.scope.is_delivered(str(root.real))
        hides = hide_nothing if kept else context.is_hidden
        sight, view = SearchFilter(root, hides), GrepView(request, root, directory)
        reader, answer = _select_reader(view, sight)
        with ExitStack() as held:
            descriptor = await to_thread.run_sync(held.enter_context, open_search_root(root))
            ending = await run_ripgrep(
                self._children,
                [self._ripgrep, *build_options(request, root, directory)],
                _resolve_directory(descriptor, root),
                self._env,
                reader,
                self._seconds,
            )
        return await to_thread.run_sync(
            partial(self._build_result, reader, answer, ending, view, sight)
        )

    def _build_result(
        self,
        reader: RipgrepReader,
        build_answer: Callable[[], GrepAnswer],
        ripgrep_exit: RipgrepExit,
        view: GrepView,
        search_filter: SearchFilter,
    ) -> ToolResult:
        said = self._describe_problems(ripgrep_exit, view, search_filter)
        if said and not reader.has_results:
            return build_error_result("\n".join(said))
        found = build_answer()
        overflow = _describe_overflow(reader)
        notes = [*found.notes, *overflow, *(f"({one})" for one in said)]
        response = (
            {**found.response, "timedOut": True} if ripgrep_exit.timed_out else found.response
        )
        text = "\n\n".join([found.text, *(["\n".join(notes)] if notes else [])])
        return build_text_result(text, response=response)

    def _describe_problems(
        self, ripgrep_exit: RipgrepExit, view: GrepView, search_filter: SearchFilter
    ) -> list[str]:
        """What kept the search from being complete, each in one sentence."""
        said: list[str] = []
        if ripgrep_exit.failure:
            said.append(f"ripgrep failed: {ripgrep_exit.failure}")
        if ripgrep_exit.timed_out:
            said.append(
                f"The search was stopped after {self._seconds:g} seconds and is not complete."
                " Give a narrower path, glob or type."
            )
        problems = ripgrep_exit.list_problems(search_filter)
        if problems:
            some = ", ".join(
                f"{format_relative_path(view.directory, view.root.to_given_path(one.relative))}: {one.reason}"
                for one in problems[:_MAX_LISTED_PROBLEMS]
            )
            rest = len(problems) - _MAX_LISTED_PROBLEMS
            said.append(
                f"Could not be searched: {some}" + (f", and {rest} more" if rest > 0 else "")
            )
        return said


def _select_reader(
    view: GrepView, search_filter: SearchFilter
) -> tuple[RipgrepReader, Callable[[], GrepAnswer]]:
    """What reads ripgrep's output in that mode, and what tells of it afterwards."""
    match view.request.mode:
        case GrepOutputMode.FILES:
            names = FileReader(search_filter)
            return names, lambda: grep_result.render_files(view, names)
        case GrepOutputMode.COUNT:
            counts = CountReader(search_filter)
            return counts, lambda: grep_result.render_counts(view, counts)
        case GrepOutputMode.CONTENT:
            lines = LineReader(search_filter, view.request)
            return lines, lambda: grep_result.render_content(view, lines)


def _describe_overflow(reader: RipgrepReader) -> list[str]:
    if not reader.is_full or isinstance(reader, LineReader):
        return []
    return ["(The search was ended here: too many files match. Narrow it.)"]


def _resolve_directory(descriptor: int, root: SearchRoot) -> Path:
    """The open directory itself where the system can name it: nobody can swap that."""
    ours = Path(f"/proc/self/fd/{descriptor}")
    return ours if ours.is_dir() else root.directory
