"""The part of Write and Edit that is the same: a file is read before it is changed."""

from abc import abstractmethod

from anyio import to_thread

from mcp_dispatch.fs.safe_open import FileError, LoadedFile, exists, load
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    FileSeen,
    ToolResult,
    build_error_result,
)
from mcp_dispatch.tools.base import BuiltInTool, ToolDeclaration, build_refusal
from mcp_dispatch.tools.files.target import FileTarget, resolve_target, with_path

NOT_READ_MESSAGE = "File has not been read yet. Read it first before writing to it."
MODIFIED_MESSAGE = (
    "File has been modified since read, either by the user or by a linter."
    " Read it again before attempting to write it."
)


class FileChangeTool(BuiltInTool):
    """A tool that creates or changes one file.

    Its methods raise `FileError` for a change that cannot be made. `seen` is the state in which
    the scope has read the file, or None.
    """

    def __init__(self, declaration: ToolDeclaration, workspace: Workspace) -> None:
        super().__init__(declaration)
        self._workspace = workspace

    @abstractmethod
    def check_arguments(self, arguments: JsonObject) -> None:
        """Check what can be checked without the file."""

    @abstractmethod
    def prepare(self, target: FileTarget, arguments: JsonObject, seen: FileSeen | None) -> object:
        """Check the change against the file, without making it. Blocks."""

    @abstractmethod
    def apply(self, target: FileTarget, arguments: JsonObject, seen: FileSeen | None) -> ToolResult:
        """Make the change. Blocks."""

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        """Refuse a change that would fail.

        A file outside the workspace is not opened here: a refusal would disclose something about
        it before the call is permitted.
        """
        target = resolve_target(self._workspace, arguments, context)
        try:
            self.check_arguments(arguments)
            if self._workspace.contains(target.real):
                seen = context.scope.find_seen_file(target.key)
                await to_thread.run_sync(self.prepare, target, arguments, seen)
        except FileError as problem:
            raise build_refusal(str(problem)) from problem
        return CheckResult(with_path(arguments, target))

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        target = resolve_target(self._workspace, arguments, context)
        seen = context.scope.find_seen_file(target.key)
        try:
            return await to_thread.run_sync(self.apply, target, arguments, seen)
        except FileError as problem:
            return build_error_result(str(problem))


def load_seen(target: FileTarget, seen: FileSeen | None) -> LoadedFile | None:
    """Load the file as it is now, or return None if there is none.

    Raise `FileError` for a file that the scope has not read. The caller decides whether a partial
    view is enough and whether the file may have changed since.
    """
    if not exists(target.real):
        return None
    if seen is None:
        raise FileError(NOT_READ_MESSAGE)
    return load(target.real)


def is_stale(loaded: LoadedFile, seen: FileSeen) -> bool:
    """Compare by content: a new mtime may belong to the same bytes, an old one to others."""
    return loaded.digest != seen.digest


def refuse_lone_surrogates(field: str, text: str) -> None:
    """Raise `Refused` for text that no encoding can represent."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise build_refusal(
            f"{field} contains half a surrogate pair at position {error.start}; send whole"
            " characters."
        ) from error
