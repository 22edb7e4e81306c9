"""A scope for file tools, and the steps of a call: check, run, apply the changes."""

from pathlib import Path

from mcp_dispatch.model.json import Json
from mcp_dispatch.model.tools import CallContext, FileRead, FileSeen, Tool, ToolResult


class FileScope:
    """Remembers files in a dict, as a real scope does."""

    def __init__(self, cwd: Path | None = None, kept: tuple[str, ...] = ()) -> None:
        self.files: dict[str, FileSeen] = {}
        self._cwd = cwd
        self._kept = kept

    @property
    def id(self) -> str:
        return "scope-1"

    @property
    def cwd(self) -> Path | None:
        return self._cwd

    def find_seen_file(self, path: str) -> FileSeen | None:
        return self.files.get(path)

    def is_delivered(self, path: str) -> bool:
        return path in self._kept

    def context(self) -> CallContext:
        return CallContext("call-1", self)


async def call(tool: Tool, scope: FileScope, **arguments: Json) -> ToolResult:
    """As the pipeline calls it. A `Refused` of the check is raised."""
    checked = await tool.check(arguments, scope.context())
    result = await tool.run(checked.arguments, scope.context())
    assert isinstance(result, ToolResult)
    for change in result.changes:
        assert isinstance(change, FileRead)
        scope.files[change.path] = change.seen
    return result


def extract_result_text(result: ToolResult) -> str:
    """The one text block of a result, which must not be an error."""
    assert not result.is_error, result.wire
    return _text(result)


def extract_error(result: ToolResult) -> str:
    assert result.is_error, result.wire
    return _text(result)


def _text(result: ToolResult) -> str:
    match result.wire["content"]:
        case [{"type": "text", "text": str(text)}]:
            return text
        case content:
            raise AssertionError(f"expected one block of text, got {content!r}")
