"""Edit: one passage of a file, or every occurrence of it, replaced by another."""

from dataclasses import dataclass, replace
from difflib import get_close_matches

from anyio import to_thread

from mcp_dispatch.fs.safe_open import CannotUse, Loaded, store
from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import (
    CallContext,
    Checked,
    ContextChange,
    FileRead,
    FileSeen,
    Interrupt,
    ToolResult,
    error_result,
    text_result,
)
from mcp_dispatch.tools.base import BuiltIn, Declaration
from mcp_dispatch.tools.files.diff import hunks_between, structured_patch, unified
from mcp_dispatch.tools.files.encoding import NEW_DOCUMENT, Document, document_of, shown
from mcp_dispatch.tools.files.read import BUDGET
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
from mcp_dispatch.tools.files.text_match import Found, find, replaced

_HINTED_LINES = 2000
_HINTED_WIDTH = 200

_DECLARATION = Declaration(
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
        "file_path": FILE_PATH,
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
class Passage:
    """What to replace by what."""

    old: str
    new: str
    every: bool

    @staticmethod
    def of(arguments: JsonObject) -> "Passage":
        old, new = str(arguments["old_string"]), str(arguments["new_string"])
        return Passage(old, new, arguments.get("replace_all") is True)


@dataclass(frozen=True, slots=True)
class Plan:
    """An edit that can be made: the file as it is, its text as it will be.

    `stale` and `partial` say that the scope has not seen all of it, and will not have by this.
    """

    loaded: Loaded | None
    document: Document
    text: str
    stale: bool = False
    partial: bool = False


class Edit(BuiltIn):
    def __init__(self, workspace: Workspace) -> None:
        super().__init__(_DECLARATION)
        self._workspace = workspace

    async def check(self, arguments: JsonObject, context: CallContext) -> Checked:
        """Outside the workspace, what is on the disk is told only once the call is permitted."""
        target, passage = target_of(self._workspace, arguments, context), Passage.of(arguments)
        refuse_half_characters("new_string", passage.new)
        try:
            if passage.old == passage.new:
                raise CannotUse("No changes to make: old_string and new_string are the same.")
            if self._workspace.contains(target.real):
                await to_thread.run_sync(_plan, target, passage, context.scope.seen(target.key))
        except CannotUse as problem:
            raise Refused(RefusedBy.SEMANTIC, str(problem)) from problem
        return Checked(with_path(arguments, target))

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        target, passage = target_of(self._workspace, arguments, context), Passage.of(arguments)
        seen = context.scope.seen(target.key)
        try:
            return await to_thread.run_sync(_edit, target, passage, seen)
        except CannotUse as problem:
            return error_result(str(problem))


def _edit(target: Target, passage: Passage, seen: FileSeen | None) -> ToolResult:
    plan = _plan(target, passage, seen)
    before = None if plan.loaded is None else plan.loaded.status
    after = store(target.real, plan.document.encode(plan.text), before)
    return _answer(target, passage, plan, _changes(target, plan, after))


def _changes(target: Target, plan: Plan, after: FileSeen) -> tuple[ContextChange, ...]:
    """Someone else's change to the file stays unseen: a later Write has to read it first."""
    if plan.stale:
        return ()
    return (FileRead(target.key, replace(after, partial=plan.partial)),)


def _plan(target: Target, passage: Passage, seen: FileSeen | None) -> Plan:
    """Read before edit, then the match, then its uniqueness. Raises `CannotUse`."""
    loaded = load_seen(target, seen)
    if loaded is None or seen is None:
        return _creation(target, passage)
    document = document_of(loaded.content)
    if document is None:
        raise CannotUse(f"{target.path} is not text that can be edited. Use Bash instead.")
    # A file that no page can hold would never be editable; there the exact match is the proof.
    if seen.partial and len(document.text) <= BUDGET:
        raise CannotUse(NOT_READ)
    stale = is_stale(loaded, seen)
    text = _edited(target, passage, document, stale)
    return Plan(loaded, document, text, stale, seen.partial)


def _creation(target: Target, passage: Passage) -> Plan:
    if passage.old:
        raise CannotUse(f"File does not exist: {target.path}. Use Write to create it.")
    return Plan(None, NEW_DOCUMENT, passage.new)


def _edited(target: Target, passage: Passage, document: Document, stale: bool) -> str:
    if not passage.old:
        if document.text:
            raise CannotUse(
                f"Cannot create new file: {target.path} already exists and is not empty."
                " Give the text to replace as old_string."
            )
        return passage.new
    found = find(document.text, passage.old)
    if stale and not (found.exact and found.count == 1):
        raise CannotUse(MODIFIED)
    _refuse_unless_clear(target, passage, document, found)
    if not document.sound:
        _refuse_corruption(target, passage, document, found)
    text = replaced(found, passage.old, passage.new, every=passage.every)
    if text == document.text:
        raise CannotUse(f"No changes to make: {target.path} has new_string there already.")
    return text


def _refuse_unless_clear(
    target: Target, passage: Passage, document: Document, found: Found
) -> None:
    if found.count == 0:
        hint = _nearest_line(document.shown, passage.old)
        raise CannotUse(f"String to replace not found in {target.path}.{hint}")
    if found.count > 1 and not passage.every:
        lines = ", ".join(map(str, found.lines())) + (", …" if found.count > 10 else "")
        raise CannotUse(
            f"Found {found.count} matches of the string to replace in {target.path}, at lines"
            f" {lines}. Set replace_all to true to change every one, or give more of the text"
            " around the one you mean."
        )


def _refuse_corruption(target: Target, passage: Passage, document: Document, found: Found) -> None:
    """In an unknown encoding only ASCII between whole characters is sure to be what it seems.

    Two-byte encodings (Shift JIS, GBK, Big5) have ASCII as second bytes, always after a high one.
    """
    after_high_byte = any(
        "\udc80" <= document.text[start - 1] <= "\udcff"
        for start in map(found.view.raw_position, found.places())
        if start > 0
    )
    if after_high_byte or not (passage.old + passage.new).isascii():
        raise CannotUse(
            f"{target.path} is not valid UTF-8, and this edit could corrupt it."
            " Convert it first, for example with `iconv` in Bash."
        )


def _nearest_line(text: str, old: str) -> str:
    """A hint that costs little: the line most like the first one that was looked for."""
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")[:_HINTED_WIDTH]
    lines = [line.strip()[:_HINTED_WIDTH] for line in text.split("\n", _HINTED_LINES)]
    close = get_close_matches(wanted, lines[:_HINTED_LINES], n=1) if wanted else []
    if not close:
        return " Read the file again and copy the text from it."
    return f" The nearest line is {lines.index(close[0]) + 1}: {close[0]}"


def _answer(
    target: Target, passage: Passage, plan: Plan, changes: tuple[ContextChange, ...]
) -> ToolResult:
    original, text = plan.document.shown, plan.text
    if not plan.document.sound:
        text = shown(text)
    hunks = hunks_between(original, text)
    response: JsonObject = {
        "filePath": str(target.path),
        "oldString": passage.old,
        "newString": passage.new,
        "originalFile": None if plan.loaded is None else original,
        "structuredPatch": structured_patch(hunks),
        "userModified": False,
        "replaceAll": passage.every,
    }
    if plan.loaded is None:
        message = f"File created successfully at: {target.path}"
    else:
        message = f"The file {target.path} has been updated.\n{unified(str(target.path), hunks)}"
    return text_result(message, response=response, changes=changes)
