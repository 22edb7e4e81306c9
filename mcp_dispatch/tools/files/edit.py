"""Edit: one passage of a file, or every occurrence of it, replaced by another."""

from dataclasses import dataclass, replace
from difflib import get_close_matches

from anyio import to_thread

from mcp_dispatch.fs.safe_open import FileError, LoadedFile, store
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    ContextChange,
    FileRead,
    FileSeen,
    Interrupt,
    ToolResult,
    build_error_result,
    build_text_result,
)
from mcp_dispatch.tools.base import BuiltInTool, ToolDeclaration
from mcp_dispatch.tools.files.diff import build_structured_patch, compute_hunks, format_unified_diff
from mcp_dispatch.tools.files.encoding import (
    NEW_DOCUMENT,
    TextDocument,
    decode_document,
    replace_invalid_bytes,
)
from mcp_dispatch.tools.files.read import MAX_PAGE_CHARS
from mcp_dispatch.tools.files.target import (
    FILE_PATH_SCHEMA,
    MODIFIED_MESSAGE,
    NOT_READ_MESSAGE,
    FileTarget,
    is_stale,
    load_seen,
    refuse_lone_surrogates,
    resolve_target,
    with_path,
)
from mcp_dispatch.tools.files.text_match import TextMatches, find_matches, replace_matches

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
    """What to replace by what."""

    old: str
    new: str
    replace_all: bool

    @staticmethod
    def from_arguments(arguments: JsonObject) -> "EditRequest":
        old, new = str(arguments["old_string"]), str(arguments["new_string"])
        return EditRequest(old, new, arguments.get("replace_all") is True)


@dataclass(frozen=True, slots=True)
class EditPlan:
    """An edit that can be made: the file as it is, its text as it will be.

    `stale` and `partial` say that the scope has not seen all of it, and will not have by this.
    """

    loaded: LoadedFile | None
    document: TextDocument
    text: str
    stale: bool = False
    partial: bool = False


class EditTool(BuiltInTool):
    def __init__(self, workspace: Workspace) -> None:
        super().__init__(_DECLARATION)
        self._workspace = workspace

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        """Outside the workspace, what is on the disk is told only once the call is permitted."""
        target, passage = (
            resolve_target(self._workspace, arguments, context),
            EditRequest.from_arguments(arguments),
        )
        refuse_lone_surrogates("new_string", passage.new)
        try:
            if passage.old == passage.new:
                raise FileError("No changes to make: old_string and new_string are the same.")
            if self._workspace.contains(target.real):
                await to_thread.run_sync(
                    _plan_edit, target, passage, context.scope.find_seen_file(target.key)
                )
        except FileError as problem:
            raise Refused(RefusedBy.SEMANTIC, str(problem)) from problem
        return CheckResult(with_path(arguments, target))

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        target, passage = (
            resolve_target(self._workspace, arguments, context),
            EditRequest.from_arguments(arguments),
        )
        seen = context.scope.find_seen_file(target.key)
        try:
            return await to_thread.run_sync(_apply_edit, target, passage, seen)
        except FileError as problem:
            return build_error_result(str(problem))


def _apply_edit(target: FileTarget, request: EditRequest, seen: FileSeen | None) -> ToolResult:
    plan = _plan_edit(target, request, seen)
    before = None if plan.loaded is None else plan.loaded.status
    after = store(target.real, plan.document.encode(plan.text), before)
    return _build_result(target, request, plan, _build_changes(target, plan, after))


def _build_changes(
    target: FileTarget, plan: EditPlan, after: FileSeen
) -> tuple[ContextChange, ...]:
    """Someone else's change to the file stays unseen: a later Write has to read it first."""
    if plan.stale:
        return ()
    return (FileRead(target.key, replace(after, partial=plan.partial)),)


def _plan_edit(target: FileTarget, request: EditRequest, seen: FileSeen | None) -> EditPlan:
    """Read before edit, then the match, then its uniqueness. Raises `CannotUse`."""
    loaded = load_seen(target, seen)
    if loaded is None or seen is None:
        return _plan_creation(target, request)
    document = decode_document(loaded.content)
    if document is None:
        raise FileError(f"{target.path} is not text that can be edited. Use Bash instead.")
    # A file that no page can hold would never be editable; there the exact match is the proof.
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
    """In an unknown encoding only ASCII between whole characters is sure to be what it seems.

    Two-byte encodings (Shift JIS, GBK, Big5) have ASCII as second bytes, always after a high one.
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
    """A hint that costs little: the line most like the first one that was looked for."""
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
        message = f"The file {target.path} has been updated.\n{format_unified_diff(str(target.path), hunks)}"
    return build_text_result(message, response=response, changes=changes)
