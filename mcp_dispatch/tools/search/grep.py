"""Grep: the contents of files, searched by ripgrep."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path

from anyio import fail_after, to_thread

from mcp_dispatch.fs.safe_open import CannotUse
from mcp_dispatch.fs.workspace import Workspace, real_path
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    Checked,
    Interrupt,
    ToolResult,
    error_result,
    nothing_hidden,
    text_result,
)
from mcp_dispatch.processes.child import CannotStart
from mcp_dispatch.processes.children import Children
from mcp_dispatch.results.locks import keep_young
from mcp_dispatch.tools.base import BuiltIn, Declaration
from mcp_dispatch.tools.search import grep_result
from mcp_dispatch.tools.search.grep_result import Answer, View
from mcp_dispatch.tools.search.ripgrep import Ending, find_ripgrep, search
from mcp_dispatch.tools.search.ripgrep_json import CountReader, FileReader, LineReader, Reader
from mcp_dispatch.tools.search.ripgrep_request import (
    HEAD_LIMIT,
    MOST_CONTEXT,
    Mode,
    options,
    request_of,
)
from mcp_dispatch.tools.search.root import Place, Sight, entered, place_at, shown_from

SECONDS = 20.0
RESULT_LIMIT = 20_000
_PATIENCE = 5.0
_NAMED_PROBLEMS = 3
# ripgrep asks git's own settings which files the user never wants to see.
_PASSED_ON = ("HOME", "XDG_CONFIG_HOME")


def _lines_around(description: str) -> Json:
    return {
        "type": "integer",
        "minimum": 0,
        "maximum": MOST_CONTEXT,
        "description": f"{description}; for output_mode content",
    }


_DECLARATION = Declaration(
    name="Grep",
    title="Search in files",
    description=(
        "Searches the contents of files with ripgrep.\n"
        "- The pattern is a regular expression of ripgrep: escape braces that are meant as such"
        " (`interface\\{\\}`).\n"
        "- output_mode: `files_with_matches` (default) lists the files, the most recently changed"
        " first; `content` shows the lines; `count` tells how many lines match in each file.\n"
        "- Files that .gitignore names are passed over, unless path or glob names them.\n"
        f"- {HEAD_LIMIT} entries are shown at a time; go on with offset."
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
        "-A": _lines_around("Lines to show after each match"),
        "-B": _lines_around("Lines to show before each match"),
        "-C": _lines_around("Lines to show before and after each match"),
        "context": _lines_around("The same as -C"),
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
            "description": f"How many entries to show; {HEAD_LIMIT} if left out, 0 for all",
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


class Grep(BuiltIn):
    """`ripgrep` is the program to use, found beside us if left out."""

    def __init__(
        self,
        workspace: Workspace,
        children: Children,
        environ: Mapping[str, str] = os.environ,
        *,
        ripgrep: str | None = None,
        seconds: float = SECONDS,
    ) -> None:
        super().__init__(_DECLARATION)
        self._workspace = workspace
        self._children = children
        self._search_path = environ.get("PATH", "")
        self._env = {name: environ[name] for name in _PASSED_ON if name in environ}
        self._given = ripgrep
        self._seconds = seconds

    @cached_property
    def _ripgrep(self) -> str:
        return self._given or find_ripgrep(self._search_path)

    async def check(self, arguments: JsonObject, context: CallContext) -> Checked:
        """Looks at no file: whether there is one is told only to who may read it."""
        request_of(arguments)
        named = arguments.get("path") or context.scope.cwd or self._workspace.require()
        path = self._workspace.resolve(str(named), context.scope.cwd)
        if not context.scope.delivered(str(real_path(path))):
            self._workspace.require()
        return Checked({**arguments, "path": str(path)})

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        path = Path(str(arguments["path"]))
        if context.scope.delivered(str(path)):
            keep_young(path)
        try:
            with fail_after(_PATIENCE):
                place = await to_thread.run_sync(place_at, path, context, abandon_on_cancel=True)
            return await self._search(arguments, place, context)
        except (CannotUse, CannotStart) as problem:
            return error_result(str(problem))
        except TimeoutError:
            return error_result(f"{path} could not be searched: the file system does not answer.")

    async def _search(
        self, arguments: JsonObject, place: Place, context: CallContext
    ) -> ToolResult:
        request = request_of(arguments)
        directory = context.scope.cwd or self._workspace.root
        # Rules were asked about the one file that is searched; our own directory hides the others.
        kept = place.is_file and context.scope.delivered(str(place.real))
        hides = nothing_hidden if kept else context.hides
        sight, view = Sight(place, hides), View(request, place, directory)
        reader, answer = _reading(view, sight)
        with ExitStack() as held:
            descriptor = await to_thread.run_sync(held.enter_context, entered(place))
            ending = await search(
                self._children,
                [self._ripgrep, *options(request, place, directory)],
                _directory_of(descriptor, place),
                self._env,
                reader,
                self._seconds,
            )
        return await to_thread.run_sync(partial(self._result, reader, answer, ending, view, sight))

    def _result(
        self,
        reader: Reader,
        answer: Callable[[], Answer],
        ending: Ending,
        view: View,
        sight: Sight,
    ) -> ToolResult:
        said = self._trouble(ending, view, sight)
        if said and not reader.found:
            return error_result("\n".join(said))
        found = answer()
        overflow = _overflow(reader)
        notes = [*found.notes, *overflow, *(f"({one})" for one in said)]
        response = {**found.response, "timedOut": True} if ending.late else found.response
        text = "\n\n".join([found.text, *(["\n".join(notes)] if notes else [])])
        return text_result(text, response=response)

    def _trouble(self, ending: Ending, view: View, sight: Sight) -> list[str]:
        """What kept the search from being complete, each in one sentence."""
        said: list[str] = []
        if ending.failure:
            said.append(f"ripgrep failed: {ending.failure}")
        if ending.late:
            said.append(
                f"The search was stopped after {self._seconds:g} seconds and is not complete."
                " Give a narrower path, glob or type."
            )
        problems = ending.problems(sight)
        if problems:
            some = ", ".join(
                f"{shown_from(view.directory, view.place.named(one.relative))}: {one.reason}"
                for one in problems[:_NAMED_PROBLEMS]
            )
            rest = len(problems) - _NAMED_PROBLEMS
            said.append(
                f"Could not be searched: {some}" + (f", and {rest} more" if rest > 0 else "")
            )
        return said


def _reading(view: View, sight: Sight) -> tuple[Reader, Callable[[], Answer]]:
    """What reads ripgrep's output in that mode, and what tells of it afterwards."""
    match view.request.mode:
        case Mode.FILES:
            names = FileReader(sight)
            return names, lambda: grep_result.files(view, names)
        case Mode.COUNT:
            counts = CountReader(sight)
            return counts, lambda: grep_result.counts(view, counts)
        case Mode.CONTENT:
            lines = LineReader(sight, view.request)
            return lines, lambda: grep_result.content(view, lines)


def _overflow(reader: Reader) -> list[str]:
    if not reader.full or isinstance(reader, LineReader):
        return []
    return ["(The search was ended here: too many files match. Narrow it.)"]


def _directory_of(descriptor: int, place: Place) -> Path:
    """The open directory itself where the system can name it: nobody can swap that."""
    ours = Path(f"/proc/self/fd/{descriptor}")
    return ours if ours.is_dir() else place.directory
