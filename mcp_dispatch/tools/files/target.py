"""The file a call is about: the path as it was given, and where it leads."""

from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.fs.safe_open import FileError, LoadedFile, exists, load
from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import CallContext, FileSeen

FILE_PATH_SCHEMA: Json = {
    "type": "string",
    "minLength": 1,
    "description": "The absolute path of the file",
}


@dataclass(frozen=True, slots=True)
class FileTarget:
    path: Path
    real: Path

    @property
    def key(self) -> str:
        """The name under which a scope remembers the file."""
        return str(self.real)


def resolve_target(workspace: Workspace, arguments: JsonObject, context: CallContext) -> FileTarget:
    """Raises `Refused` where there is no workspace, unless the file is a kept result, and where
    the path leads elsewhere than when the call was judged."""
    text = str(arguments["file_path"])
    if text.endswith(("/", "/.")):
        raise Refused(
            RefusedBy.SEMANTIC, f"{text!r} names a directory; give the path of a file in it"
        )
    path = workspace.resolve(text, context.scope.cwd)
    target = FileTarget(path, to_real_path(path))
    if not context.scope.is_delivered(target.key):
        workspace.require()
    refuse_changed_path(target, context)
    return target


def refuse_changed_path(target: FileTarget, context: CallContext) -> None:
    """A link that was swapped since the rules spoke leads to a file they said nothing about."""
    if context.judged_paths is not None and target.real not in context.judged_paths:
        raise build_path_change_refusal(str(target.path))


def build_path_change_refusal(path: str) -> Refused:
    return Refused(
        RefusedBy.PERMISSION,
        f"{path} changed while the call was being decided: it leads to another place now."
        " Call again.",
    )


def with_path(arguments: JsonObject, target: FileTarget) -> JsonObject:
    """The arguments as rules, hooks and `run` see them."""
    return {**arguments, "file_path": str(target.path)}


NOT_READ_MESSAGE = "File has not been read yet. Read it first before writing to it."
MODIFIED_MESSAGE = (
    "File has been modified since read, either by the user or by a linter."
    " Read it again before attempting to write it."
)


def load_seen(target: FileTarget, seen: FileSeen | None) -> LoadedFile | None:
    """The file as it is now; None where there is none. Raises `CannotUse` for an unread one.

    Whether a partial view is enough, and whether the file may have changed, the tool decides.
    """
    if not exists(target.real):
        return None
    if seen is None:
        raise FileError(NOT_READ_MESSAGE)
    return load(target.real)


def is_stale(loaded: LoadedFile, seen: FileSeen) -> bool:
    """By content alone: a newer time on the same bytes is no change, an old one no proof."""
    return loaded.digest != seen.digest


def refuse_lone_surrogates(field: str, text: str) -> None:
    """A lone surrogate is no text in any encoding."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused(
            RefusedBy.SEMANTIC,
            f"{field} contains half a surrogate pair at position {error.start}; send whole"
            " characters.",
        ) from error
