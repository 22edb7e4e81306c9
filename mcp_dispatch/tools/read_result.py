"""read_result: reads a stored result page by page, for clients without the Read tool."""

from pathlib import Path

from anyio import to_thread

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    ToolResult,
    build_error_result,
    build_text_result,
)
from mcp_dispatch.results.markers import escape_markers
from mcp_dispatch.results.pages import (
    CannotRead,
    extract_result_id,
    find_stored_file,
    is_text,
    read_page,
)
from mcp_dispatch.tools.base import (
    BuiltInTool,
    build_refusal,
    declare_read_only_tool,
    parse_integer,
)

_DECLARATION = declare_read_only_tool(
    name="read_result",
    title="Read a kept result",
    description=(
        "Reads one page of a result that was too large and was kept in a file.\n"
        "- `id` is what the result named: the path, the dispatch:// link, or the id in them.\n"
        "- `offset` is in bytes; each page says where the next one starts."
    ),
    properties={
        "id": {"type": "string", "minLength": 1, "description": "The path, link or id"},
        "offset": {"type": "integer", "minimum": 0, "description": "Where to start, in bytes"},
    },
    required=("id",),
    result_limit=None,
)


class ReadResultTool(BuiltInTool):
    """Reads files in `directory`, where results are stored, and opens no others."""

    def __init__(self, directory: Path) -> None:
        super().__init__(_DECLARATION)
        self._directory = directory

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        self._find_result(arguments, context)
        return CheckResult(arguments)

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        path = self._find_result(arguments, context)
        if not is_text(path):
            return build_error_result(
                f"{path} is not text; open it with a program that knows its format."
            )
        offset = parse_integer(arguments.get("offset"), default=0)
        try:
            page = await to_thread.run_sync(read_page, path, offset)
        except CannotRead as problem:
            return build_error_result(str(problem))
        more = f"; the next page has offset {page.end}" if page.end < page.size else ""
        position = f"[Bytes {page.start}-{page.end} of {page.size}{more}]"
        text = escape_markers(page.content.decode("utf-8", "replace"))
        return build_text_result(
            f"{text}\n\n{position}",
            response={"path": str(path), "start": page.start, "end": page.end, "size": page.size},
        )

    def _find_result(self, arguments: JsonObject, context: CallContext) -> Path:
        """Raise `Refused` unless the result exists and was delivered to the calling scope."""
        reference = str(arguments["id"])
        path = None
        if (id := extract_result_id(reference, self._directory)) is not None:
            path = find_stored_file(self._directory, id, context.scope.is_delivered)
        if path is None:
            raise build_refusal(
                f"no result {reference[:200]!r} was delivered here, or it is kept no longer;"
                " give the path or the link that a result named",
            )
        return path
