"""Write: a whole file, new or in the place of one that was read."""

from anyio import to_thread

from mcp_dispatch.fs.safe_open import CannotUse, Loaded, store
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import (
    CallContext,
    Checked,
    FileRead,
    FileSeen,
    Interrupt,
    ToolResult,
    error_result,
    text_result,
)
from mcp_dispatch.tools.base import BuiltIn, Declaration
from mcp_dispatch.tools.files.diff import Hunk, hunks_between, structured_patch, unified
from mcp_dispatch.tools.files.encoding import NEW_DOCUMENT, Document, document_of
from mcp_dispatch.tools.files.target import (
    FILE_PATH,
    MODIFIED,
    NOT_READ,
    Target,
    is_stale,
    load_seen,
    refuse_half_characters,
    target_of,
    with_path,
)

_DECLARATION = Declaration(
    name="Write",
    title="Write a file",
    description=(
        "Writes a file, with the directories it needs, or replaces the whole of an existing one.\n"
        "- An existing file must have been read whole with Read first; prefer Edit for a change"
        " to it.\n"
        "- The content is written as it is given: line ends are not converted. The encoding and"
        " the permissions of an existing file are kept."
    ),
    properties={
        "file_path": FILE_PATH,
        "content": {"type": "string", "description": "The whole content of the file"},
    },
    required=("file_path", "content"),
    read_only=False,
    destructive=True,
    idempotent=True,
    open_world=False,
    interrupt=Interrupt.BLOCK,
    result_limit=50_000,
)


class Write(BuiltIn):
    def __init__(self, workspace: Workspace) -> None:
        super().__init__(_DECLARATION)
        self._workspace = workspace

    async def check(self, arguments: JsonObject, context: CallContext) -> Checked:
        """Outside the workspace, what is on the disk is told only once the call is permitted."""
        target = target_of(self._workspace, arguments, context)
        refuse_half_characters("content", str(arguments["content"]))
        if self._workspace.contains(target.real):
            try:
                await to_thread.run_sync(_current, target, context.scope.seen(target.key))
            except CannotUse as problem:
                raise Refused(RefusedBy.SEMANTIC, str(problem)) from problem
        return Checked(with_path(arguments, target))

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        target = target_of(self._workspace, arguments, context)
        seen, content = context.scope.seen(target.key), str(arguments["content"])
        try:
            return await to_thread.run_sync(_write, target, content, seen)
        except CannotUse as problem:
            return error_result(str(problem))


def _write(target: Target, content: str, seen: FileSeen | None) -> ToolResult:
    loaded, document = _current(target, seen)
    before = None if loaded is None else loaded.status
    after = store(target.real, document.encode(content), before)
    original = None if loaded is None else document.text
    hunks = () if original is None else hunks_between(original, content)
    response: JsonObject = {
        "type": "create" if original is None else "update",
        "filePath": str(target.path),
        "content": content,
        "structuredPatch": structured_patch(hunks),
        "originalFile": original,
    }
    message = _message(target, hunks, created=original is None)
    return text_result(message, response=response, changes=(FileRead(target.key, after),))


def _message(target: Target, hunks: tuple[Hunk, ...], *, created: bool) -> str:
    if created:
        return f"File created successfully at: {target.path}"
    if not hunks:
        return f"File written successfully at: {target.path}\nIts content is the same as before."
    return f"File updated successfully at: {target.path}\n{unified(str(target.path), hunks)}"


def _current(target: Target, seen: FileSeen | None) -> tuple[Loaded | None, Document]:
    """What stands there now, seen whole and unchanged since. Raises `CannotUse` otherwise."""
    loaded = load_seen(target, seen)
    if loaded is None or seen is None:
        return None, NEW_DOCUMENT
    if seen.partial:
        raise CannotUse(NOT_READ)
    if is_stale(loaded, seen):
        raise CannotUse(MODIFIED)
    document = document_of(loaded.content)
    if document is None or not document.sound:
        raise CannotUse(
            f"{target.path} is not valid UTF-8 text, and writing it would lose the bytes that"
            " Read could not show. Convert it first, for example with `iconv` in Bash."
        )
    return loaded, document
