"""Write: creates a file, or replaces the content of one that was read."""

from mcp_dispatch.fs.safe_open import FileError, LoadedFile, store
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import (
    FileRead,
    FileSeen,
    Interrupt,
    ToolResult,
    build_text_result,
)
from mcp_dispatch.tools.base import ToolDeclaration
from mcp_dispatch.tools.files.change import (
    MODIFIED_MESSAGE,
    NOT_READ_MESSAGE,
    FileChangeTool,
    is_stale,
    load_seen,
    refuse_lone_surrogates,
)
from mcp_dispatch.tools.files.diff import (
    Hunk,
    build_structured_patch,
    compute_hunks,
    format_unified_diff,
)
from mcp_dispatch.tools.files.encoding import NEW_DOCUMENT, TextDocument, decode_document
from mcp_dispatch.tools.files.target import FILE_PATH_SCHEMA, FileTarget

_DECLARATION = ToolDeclaration(
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
        "file_path": FILE_PATH_SCHEMA,
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


class WriteTool(FileChangeTool):
    def __init__(self, workspace: Workspace) -> None:
        super().__init__(_DECLARATION, workspace)

    def check_arguments(self, arguments: JsonObject) -> None:
        refuse_lone_surrogates("content", str(arguments["content"]))

    def prepare(self, target: FileTarget, arguments: JsonObject, seen: FileSeen | None) -> object:
        return _load_current(target, seen)

    def apply(self, target: FileTarget, arguments: JsonObject, seen: FileSeen | None) -> ToolResult:
        content = str(arguments["content"])
        loaded, document = _load_current(target, seen)
        status = None if loaded is None else loaded.status
        after = store(target.real, document.encode(content), status)
        original = None if loaded is None else document.text
        hunks = () if original is None else compute_hunks(original, content)
        response: JsonObject = {
            "type": "create" if original is None else "update",
            "filePath": str(target.path),
            "content": content,
            "structuredPatch": build_structured_patch(hunks),
            "originalFile": original,
        }
        message = _format_message(target, hunks, is_new=original is None)
        return build_text_result(message, response=response, changes=(FileRead(target.key, after),))


def _format_message(target: FileTarget, hunks: tuple[Hunk, ...], *, is_new: bool) -> str:
    if is_new:
        return f"File created successfully at: {target.path}"
    if not hunks:
        return f"File written successfully at: {target.path}\nIts content is the same as before."
    diff = format_unified_diff(str(target.path), hunks)
    return f"File updated successfully at: {target.path}\n{diff}"


def _load_current(
    target: FileTarget, seen: FileSeen | None
) -> tuple[LoadedFile | None, TextDocument]:
    """Load the file, or return None and an empty document if there is none.

    Raise `FileError` unless the scope has read the whole file in its present state.
    """
    loaded = load_seen(target, seen)
    if loaded is None or seen is None:
        return None, NEW_DOCUMENT
    if seen.partial:
        raise FileError(NOT_READ_MESSAGE)
    if is_stale(loaded, seen):
        raise FileError(MODIFIED_MESSAGE)
    document = decode_document(loaded.content)
    if document is None or not document.is_valid:
        raise FileError(
            f"{target.path} is not valid UTF-8 text, and writing it would lose the bytes that"
            " Read could not show. Convert it first, for example with `iconv` in Bash."
        )
    return loaded, document
