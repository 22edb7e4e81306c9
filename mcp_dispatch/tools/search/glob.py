"""Glob: the files whose names fit a pattern, the newest first."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from mcp_dispatch.fs.safe_open import CannotUse
from mcp_dispatch.fs.workspace import Workspace, real_path
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    Checked,
    Interrupt,
    ToolResult,
    error_result,
    text_result,
)
from mcp_dispatch.tools.base import BuiltIn, Declaration
from mcp_dispatch.tools.search.gitignore import ignored_around
from mcp_dispatch.tools.search.glob_pattern import fixed_prefix, parse, refuse_unusable
from mcp_dispatch.tools.search.root import Place, Sight, entered, place_at, shown
from mcp_dispatch.tools.search.walk import Found, Walk

MOST_FILES = 100
SECONDS = 20.0
RESULT_LIMIT = 100_000
_PATIENCE = 5.0
"""Seconds more for a file system that does not answer at all."""
_OFF = frozenset({"0", "false", "no", "off"})

_DECLARATION = Declaration(
    name="Glob",
    title="Find files by name",
    description=(
        "Finds files by a pattern of their names and returns their absolute paths, the most"
        " recently changed first.\n"
        "- `*` and `?` stay within one name, `**` crosses directories; `[a-z]` and `{ts,tsx}` work"
        " as well.\n"
        "- A pattern without a slash matches at any depth; begin it with ./ for the directory"
        " alone.\n"
        f"- At most {MOST_FILES} files are listed; the answer says how many there are.\n"
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
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=False,
    interrupt=Interrupt.CANCEL,
    result_limit=RESULT_LIMIT,
)


class Glob(BuiltIn):
    """Walks in a worker thread with `os.scandir`.

    ripgrep lists a whole tree faster, but passes over links, reads directories that the pattern
    rules out, opens them by name, and first has to be started.
    """

    def __init__(
        self,
        workspace: Workspace,
        environ: Mapping[str, str] = os.environ,
        *,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(_DECLARATION)
        self._workspace = workspace
        self._hidden = not _is_off(environ, "CLAUDE_CODE_GLOB_HIDDEN")
        self._respects_ignore = _is_off(environ, "CLAUDE_CODE_GLOB_NO_IGNORE")
        self._seconds = seconds
        self._clock = clock

    async def check(self, arguments: JsonObject, context: CallContext) -> Checked:
        """Makes `path` the directory that is really searched, which is what rules judge."""
        root = self._workspace.require()
        start = self._workspace.resolve(
            str(arguments.get("path", context.scope.cwd or root)), context.scope.cwd
        )
        directory, pattern = self._judgeable(start, str(arguments["pattern"]))
        parse(pattern)
        return Checked({**arguments, "pattern": pattern, "path": str(directory)})

    def _judgeable(self, start: Path, pattern: str) -> tuple[Path, str]:
        """The same search from a directory that the pattern does not leave any more."""
        refuse_unusable(pattern)
        prefix, rest = fixed_prefix(pattern)
        if not prefix:
            return start, f"**/{pattern}" if pattern.startswith("~") else pattern
        directory = self._workspace.resolve(prefix, start)
        outside = prefix.startswith(("/", "~")) or ".." in prefix.split("/")
        if not outside and real_path(directory) == real_path(start) / prefix:
            return start, pattern
        return directory, f"./{rest}"

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        began = self._clock()
        stop = threading.Event()
        path = Path(str(arguments["path"]))
        try:
            with anyio.fail_after(self._seconds + _PATIENCE):
                place, found = await to_thread.run_sync(
                    partial(self._search, path, str(arguments["pattern"]), context, stop),
                    abandon_on_cancel=True,
                )
        except CannotUse as problem:
            return error_result(str(problem))
        except TimeoutError:
            return error_result(f"{path} could not be searched: the file system does not answer.")
        finally:
            stop.set()
        return self._answer(place, found, round((self._clock() - began) * 1000))

    def _search(
        self, path: Path, pattern: str, context: CallContext, stop: threading.Event
    ) -> tuple[Place, Found]:
        place = place_at(path, context)
        if place.is_file:
            raise CannotUse(f"{path} is a file, and Glob searches directories. Use Read or Grep.")
        deadline = self._clock() + self._seconds
        walk = Walk(
            parse(pattern),
            Sight(place, context.hides),
            MOST_FILES,
            lambda: stop.is_set() or self._clock() >= deadline,
            hidden=self._hidden,
            ignored=ignored_around(place.real) if self._respects_ignore else None,
        )
        with entered(place) as descriptor:
            return place, walk.run(descriptor)

    def _answer(self, place: Place, found: Found, milliseconds: int) -> ToolResult:
        if not found.complete and not found.total:
            return error_result(
                f"Nothing was found in {self._seconds:g} seconds, and the search was not over."
                " Give a narrower path or pattern."
            )
        names = [shown(str(place.named(relative))) for relative in found.newest]
        notes = self._notes(found)
        text = "\n".join(names or ["No files found"])
        return text_result(
            "\n\n".join([text, *(["\n".join(notes)] if notes else [])]),
            response=_response(names, found, milliseconds),
        )

    def _notes(self, found: Found) -> list[str]:
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


def _is_off(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").strip().lower() in _OFF


def _response(names: list[str], found: Found, milliseconds: int) -> JsonObject:
    response: JsonObject = {
        "filenames": [*names],
        "numFiles": len(names),
        "durationMs": milliseconds,
        "truncated": found.total > len(names) or not found.complete,
        "totalMatches": found.total,
        "countIsComplete": found.complete,
    }
    return response if found.complete else {**response, "timedOut": True}
