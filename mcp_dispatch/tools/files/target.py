"""The file that a call names: the path as given, and the real path."""

from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import CallContext
from mcp_dispatch.tools.base import build_refusal

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
        """The key under which a scope records that it has read the file."""
        return str(self.real)


def resolve_target(workspace: Workspace, arguments: JsonObject, context: CallContext) -> FileTarget:
    """Return the file that `file_path` names.

    Raise `Refused` if there is no workspace (unless the file is a stored result), or if the path
    leads to another file than when the call was permitted.
    """
    text = str(arguments["file_path"])
    if text.endswith(("/", "/.")):
        raise build_refusal(f"{text!r} names a directory; give the path of a file in it")
    path = workspace.resolve(text, context.scope.cwd)
    target = FileTarget(path, to_real_path(path))
    if not context.scope.is_delivered(target.key):
        workspace.require()
    refuse_changed_path(target, context)
    return target


def refuse_changed_path(target: FileTarget, context: CallContext) -> None:
    """Raise `Refused` if a link was swapped after the rules decided: they judged another file."""
    if context.judged_paths is not None and target.real not in context.judged_paths:
        raise build_path_change_refusal(str(target.path))


def build_path_change_refusal(path: str) -> Refused:
    return Refused(
        RefusedBy.PERMISSION,
        f"{path} changed while the call was being decided: it leads to another place now."
        " Call again.",
    )


def with_path(arguments: JsonObject, target: FileTarget) -> JsonObject:
    """Return the arguments with the resolved path, for rules, hooks and `run`."""
    return {**arguments, "file_path": str(target.path)}
