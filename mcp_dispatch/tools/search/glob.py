"""Glob: finds files whose paths match a pattern, the most recently changed first."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from mcp_dispatch.fs.safe_open import FileError
from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    ToolResult,
    build_error_result,
    build_text_result,
)
from mcp_dispatch.tools.base import BuiltInTool, declare_read_only_tool
from mcp_dispatch.tools.search.gitignore import load_ignore_files
from mcp_dispatch.tools.search.glob_pattern import (
    parse_glob,
    refuse_unusable_pattern,
    split_fixed_prefix,
)
from mcp_dispatch.tools.search.root import (
    SearchFilter,
    SearchRoot,
    format_path,
    open_search_root,
    resolve_search_root,
)
from mcp_dispatch.tools.search.walk import DirectoryWalk, WalkResult

MAX_FILES = 100
SEARCH_SECONDS = 20.0
RESULT_LIMIT = 100_000
_GRACE_SECONDS = 5.0
"""Additional seconds after which a file system that does not respond is given up."""
_FALSE_VALUES = frozenset({"0", "false", "no", "off"})

_DECLARATION = declare_read_only_tool(
    name="Glob",
    title="Find files by name",
    description=(
        "Finds files by a pattern of their names and returns their absolute paths, the most"
        " recently changed first.\n"
        "- `*` and `?` stay within one name, `**` crosses directories; `[a-z]` and `{ts,tsx}` work"
        " as well.\n"
        "- A pattern without a slash matches at any depth; begin it with ./ for the directory"
        " alone.\n"
        f"- At most {MAX_FILES} files are listed; the answer says how many there are.\n"
        "- Hidden files and files that .gitignore names are found too; the insides of .git are"
        " not, unless the pattern or path names it."
    ),
    properties={
        "pattern": {
            "type": "string",
            "minLength": 1,
            "description": "The pattern, as in src/**/*.ts",
        },
        "path": {
            "type": "string",
            "minLength": 1,
            "description": "The directory to search in; the current directory if left out",
        },
    },
    required=("pattern",),
    result_limit=RESULT_LIMIT,
)


class GlobTool(BuiltInTool):
    """Walks the tree in a worker thread with `os.scandir`.

    ripgrep would list a whole tree faster, but it skips links, reads directories that the pattern
    excludes, opens them by name, and has to be started first.
    """

    def __init__(
        self,
        workspace: Workspace,
        environ: Mapping[str, str] = os.environ,
        *,
        seconds: float = SEARCH_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(_DECLARATION)
        self._workspace = workspace
        self._includes_hidden = not _is_disabled(environ, "CLAUDE_CODE_GLOB_HIDDEN")
        self._respects_ignore = _is_disabled(environ, "CLAUDE_CODE_GLOB_NO_IGNORE")
        self._seconds = seconds
        self._clock = clock

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        """Set `path` to the directory that is searched: the rules decide about this path."""
        root = self._workspace.require()
        start = self._workspace.resolve(
            str(arguments.get("path", context.scope.cwd or root)), context.scope.cwd
        )
        directory, pattern = self._normalize_search(start, str(arguments["pattern"]))
        parse_glob(pattern)
        return CheckResult({**arguments, "pattern": pattern, "path": str(directory)})

    def _normalize_search(self, start: Path, pattern: str) -> tuple[Path, str]:
        """Return an equal search whose pattern does not leave the directory."""
        refuse_unusable_pattern(pattern)
        prefix, rest = split_fixed_prefix(pattern)
        if not prefix:
            return start, f"**/{pattern}" if pattern.startswith("~") else pattern
        directory = self._workspace.resolve(prefix, start)
        outside = prefix.startswith(("/", "~")) or ".." in prefix.split("/")
        if not outside and to_real_path(directory) == to_real_path(start) / prefix:
            return start, pattern
        return directory, f"./{rest}"

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        started_at = self._clock()
        stop = threading.Event()
        path = Path(str(arguments["path"]))
        try:
            with anyio.fail_after(self._seconds + _GRACE_SECONDS):
                root, found = await to_thread.run_sync(
                    partial(self._search, path, str(arguments["pattern"]), context, stop),
                    abandon_on_cancel=True,
                )
        except FileError as problem:
            return build_error_result(str(problem))
        except TimeoutError:
            return build_error_result(
                f"{path} could not be searched: the file system does not answer."
            )
        finally:
            stop.set()
        return self._build_result(root, found, round((self._clock() - started_at) * 1000))

    def _search(
        self, path: Path, pattern: str, context: CallContext, stop: threading.Event
    ) -> tuple[SearchRoot, WalkResult]:
        root = resolve_search_root(path, context)
        if root.is_file:
            raise FileError(f"{path} is a file, and Glob searches directories. Use Read or Grep.")
        deadline = self._clock() + self._seconds
        walk = DirectoryWalk(
            parse_glob(pattern),
            SearchFilter(root, context.is_hidden),
            MAX_FILES,
            lambda: stop.is_set() or self._clock() >= deadline,
            include_hidden=self._includes_hidden,
            gitignore=load_ignore_files(root.real) if self._respects_ignore else None,
        )
        with open_search_root(root) as descriptor:
            return root, walk.run(descriptor)

    def _build_result(self, root: SearchRoot, found: WalkResult, milliseconds: int) -> ToolResult:
        if not found.complete and not found.total:
            return build_error_result(
                f"Nothing was found in {self._seconds:g} seconds, and the search was not over."
                " Give a narrower path or pattern."
            )
        names = [format_path(str(root.to_given_path(relative))) for relative in found.newest]
        notes = self._build_notes(found)
        text = "\n".join(names or ["No files found"])
        return build_text_result(
            "\n\n".join([text, *(["\n".join(notes)] if notes else [])]),
            response=_build_response(names, found, milliseconds),
        )

    def _build_notes(self, found: WalkResult) -> list[str]:
        notes: list[str] = []
        if found.total > len(found.newest):
            notes.append(
                f"(Results are truncated: these are the {len(found.newest)} newest of"
                f" {found.total:,} files. Give a more specific path or pattern to see others.)"
            )
        if not found.complete:
            notes.append(
                f"(The search was stopped after {self._seconds:g} seconds: there may be more files."
                " Give a narrower path or pattern.)"
            )
        if found.unreadable:
            notes.append(f"(Directories that could not be read: {found.unreadable}.)")
        return notes


def _is_disabled(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").strip().lower() in _FALSE_VALUES


def _build_response(names: list[str], found: WalkResult, milliseconds: int) -> JsonObject:
    response: JsonObject = {
        "filenames": [*names],
        "numFiles": len(names),
        "durationMs": milliseconds,
        "truncated": found.total > len(names) or not found.complete,
        "totalMatches": found.total,
        "countIsComplete": found.complete,
    }
    return response if found.complete else {**response, "timedOut": True}
