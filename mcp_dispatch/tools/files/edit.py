"""Edit: replaces one passage of a file, or every occurrence of it."""

from dataclasses import dataclass, replace
from difflib import get_close_matches

from mcp_dispatch.fs.safe_open import FileError, LoadedFile, store
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import (
    ContextChange,
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
from mcp_dispatch.tools.files.diff import build_structured_patch, compute_hunks, format_unified_diff
from mcp_dispatch.tools.files.encoding import (
    NEW_DOCUMENT,
    TextDocument,
    decode_document,
    replace_invalid_bytes,
)
from mcp_dispatch.tools.files.target import FILE_PATH_SCHEMA, FileTarget
from mcp_dispatch.tools.files.text_match import TextMatches, find_matches, replace_matches
from mcp_dispatch.tools.files.text_page import MAX_PAGE_CHARS

_MAX_HINT_LINES = 2000
_MAX_HINT_CHARS = 200

_DECLARATION = ToolDeclaration(
    name="Edit",
    title="Edit a file",
    description=(
        "Replaces a passage of a file that was read with Read.\n"
        "- old_string must be in the file exactly once, without the line numbers that Read adds;"
        " with replace_all every occurrence is replaced.\n"
        "- Line ends, encoding, quotes and permissions stay as the file has them.\n"
        "- With an empty old_string and a path where no file is, the file is created."
    ),
    properties={
        "file_path": FILE_PATH_SCHEMA,
        "old_string": {"type": "string", "description": "The text to replace"},
        "new_string": {
            "type": "string",
            "description": "The text to put in its place; it must differ from old_string",
        },
        "replace_all": {
            "type": "boolean",
            "default": False,
            "description": "Replace every occurrence of old_string",
        },
    },
    required=("file_path", "old_string", "new_string"),
    read_only=False,
    destructive=True,
    idempotent=False,
    open_world=False,
    interrupt=Interrupt.BLOCK,
    result_limit=50_000,
)


@dataclass(frozen=True, slots=True)
class EditRequest:
    """The arguments of one call."""

    old: str
    new: str
    replace_all: bool

    @staticmethod
    def from_arguments(arguments: JsonObject) -> "EditRequest":
        old, new = str(arguments["old_string"]), str(arguments["new_string"])
        return EditRequest(old, new, arguments.get("replace_all") is True)


@dataclass(frozen=True, slots=True)
class EditPlan:
    """An edit that can be made: the file as it is, and its new text.

    `stale`: the file changed after the scope read it. `partial`: the scope read only a part.
    """

    loaded: LoadedFile | None
    document: TextDocument
    text: str
    stale: bool = False
    partial: bool = False


class EditTool(FileChangeTool):
    def __init__(self, workspace: Workspace) -> None:
        super().__init__(_DECLARATION, workspace)

    def check_arguments(self, arguments: JsonObject) -> None:
        request = EditRequest.from_arguments(arguments)
        refuse_lone_surrogates("new_string", request.new)
        if request.old == request.new:
            raise FileError("No changes to make: old_string and new_string are the same.")

    def prepare(self, target: FileTarget, arguments: JsonObject, seen: FileSeen | None) -> EditPlan:
        return _plan_edit(target, EditRequest.from_arguments(arguments), seen)

    def apply(self, target: FileTarget, arguments: JsonObject, seen: FileSeen | None) -> ToolResult:
        request = EditRequest.from_arguments(arguments)
        plan = _plan_edit(target, request, seen)
        status = None if plan.loaded is None else plan.loaded.status
        after = store(target.real, plan.document.encode(plan.text), status)
        # A change that another program made to the file stays unread: Write must refuse it.
        changes: tuple[ContextChange, ...] = ()
        if not plan.stale:
            changes = (FileRead(target.key, replace(after, partial=plan.partial)),)
        return _build_result(target, request, plan, changes)


def _plan_edit(target: FileTarget, request: EditRequest, seen: FileSeen | None) -> EditPlan:
    """Check that the file was read, that the text occurs in it, and that it occurs once."""
    loaded = load_seen(target, seen)
    if loaded is None or seen is None:
        return _plan_creation(target, request)
    document = decode_document(loaded.content)
    if document is None:
        raise FileError(f"{target.path} is not text that can be edited. Use Bash instead.")
    # A file larger than one page cannot be read whole; there an exact match is sufficient.
    if seen.partial and len(document.text) <= MAX_PAGE_CHARS:
        raise FileError(NOT_READ_MESSAGE)
    stale = is_stale(loaded, seen)
    text = _replace_text(target, request, document, stale)
    return EditPlan(loaded, document, text, stale, seen.partial)


def _plan_creation(target: FileTarget, request: EditRequest) -> EditPlan:
    if request.old:
        raise FileError(f"File does not exist: {target.path}. Use Write to create it.")
    return EditPlan(None, NEW_DOCUMENT, request.new)


def _replace_text(
    target: FileTarget, request: EditRequest, document: TextDocument, stale: bool
) -> str:
    if not request.old:
        if document.text:
            raise FileError(
                f"Cannot create new file: {target.path} already exists and is not empty."
                " Give the text to replace as old_string."
            )
        return request.new
    found = find_matches(document.text, request.old)
    if stale and not (found.is_exact and found.count == 1):
        raise FileError(MODIFIED_MESSAGE)
    _refuse_ambiguous_match(target, request, document, found)
    if not document.is_valid:
        _refuse_corruption(target, request, document, found)
    text = replace_matches(found, request.old, request.new, replace_all=request.replace_all)
    if text == document.text:
        raise FileError(f"No changes to make: {target.path} has new_string there already.")
    return text


def _refuse_ambiguous_match(
    target: FileTarget, request: EditRequest, document: TextDocument, matches: TextMatches
) -> None:
    if matches.count == 0:
        hint = _suggest_nearest_line(document.display_text, request.old)
        raise FileError(f"String to replace not found in {target.path}.{hint}")
    if matches.count > 1 and not request.replace_all:
        lines = ", ".join(map(str, matches.list_line_numbers())) + (
            ", …" if matches.count > 10 else ""
        )
        raise FileError(
            f"Found {matches.count} matches of the string to replace in {target.path}, at lines"
            f" {lines}. Set replace_all to true to change every one, or give more of the text"
            " around the one you mean."
        )


def _refuse_corruption(
    target: FileTarget, request: EditRequest, document: TextDocument, matches: TextMatches
) -> None:
    """Raise `FileError` unless the edit is safe in a file of unknown encoding.

    Only ASCII text that does not follow a high byte is: two-byte encodings (Shift JIS, GBK, Big5)
    use ASCII values as second bytes, always after a high byte.
    """
    after_high_byte = any(
        "\udc80" <= document.text[start - 1] <= "\udcff"
        for start in map(matches.normalized.to_raw_position, matches.iter_starts())
        if start > 0
    )
    if after_high_byte or not (request.old + request.new).isascii():
        raise FileError(
            f"{target.path} is not valid UTF-8, and this edit could corrupt it."
            " Convert it first, for example with `iconv` in Bash."
        )


def _suggest_nearest_line(text: str, old: str) -> str:
    """Return a hint that names the line most similar to the first line of `old`."""
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")[:_MAX_HINT_CHARS]
    lines = [line.strip()[:_MAX_HINT_CHARS] for line in text.split("\n", _MAX_HINT_LINES)]
    close = get_close_matches(wanted, lines[:_MAX_HINT_LINES], n=1) if wanted else []
    if not close:
        return " Read the file again and copy the text from it."
    return f" The nearest line is {lines.index(close[0]) + 1}: {close[0]}"


def _build_result(
    target: FileTarget, request: EditRequest, plan: EditPlan, changes: tuple[ContextChange, ...]
) -> ToolResult:
    original, text = plan.document.display_text, plan.text
    if not plan.document.is_valid:
        text = replace_invalid_bytes(text)
    hunks = compute_hunks(original, text)
    response: JsonObject = {
        "filePath": str(target.path),
        "oldString": request.old,
        "newString": request.new,
        "originalFile": None if plan.loaded is None else original,
        "structuredPatch": build_structured_patch(hunks),
        "userModified": False,
        "replaceAll": request.replace_all,
    }
    if plan.loaded is None:
        message = f"File created successfully at: {target.path}"
    else:
        diff = format_unified_diff(str(target.path), hunks)
        message = f"The file {target.path} has been updated.\n{diff}"
    return build_text_result(message, response=response, changes=changes)
