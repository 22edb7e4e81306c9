"""tool_search: finds deferred tools of upstream servers and adds them to the tool list."""

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.names import TOOL_SEARCH
from mcp_dispatch.model.tool_search import ToolSearchResult
from mcp_dispatch.model.tools import (
    CallContext,
    Tool,
    ToolResult,
    ToolsActivated,
    build_text_block,
)
from mcp_dispatch.tools.base import BuiltInTool, declare_read_only_tool

FindTools = Callable[[str, int], Awaitable[ToolSearchResult]]
"""Returns the best matches for a query; the integer is their maximum number."""

CALL_TOOL_HINT = 'Call them through call_tool: {"name": …, "arguments": {…}}.'
"""Works for every client; replaced by `CALL_BY_NAME_HINT` after a client has listed the tools."""

CALL_BY_NAME_HINT = "They are in your list of tools now: call them by their names."

DEFAULT_MAX_RESULTS = 5
MAX_DEFINITION_CHARS = 18_000
"""Characters of definitions in one result, which contains them as text and as structure."""

_MAX_PROBLEM_CHARS = 200
_DESCRIPTION = (
    "Finds tools of the connected servers by what they do, and returns their full definitions. "
    "They can then be called.\n"
    'Queries: a few words ("create a calendar event"); "select:NAME,NAME" for exact names; '
    '"+word rest" where word must be in the name; "mcp__SERVER rest" for the tools of one server.'
)
_DEFERRED_INTRO = (
    "Search here before you say that something cannot be done. Tools that are not in your list:"
)
_NOTHING_DEFERRED = "The tools of the servers that are connected are in your list already."
_DECLARATION = declare_read_only_tool(
    name=TOOL_SEARCH,
    title="Find tools",
    description=_DESCRIPTION,
    properties={
        "query": {"type": "string", "minLength": 1, "description": "What the tool should do"},
        "max_results": {
            "type": "integer",
            "minimum": 1,
            "default": DEFAULT_MAX_RESULTS,
            "description": "How many tools to return at most",
        },
    },
    required=("query",),
    result_limit=50_000,
)


class ToolSearch(BuiltInTool):
    """`list_deferred` returns the names of unlisted tools, one line per server, or ""."""

    def __init__(self, find: FindTools, list_deferred: Callable[[], str]) -> None:
        super().__init__(_DECLARATION)
        self._find = find
        self._list_deferred = list_deferred

    @property
    def definition(self) -> JsonObject:
        names = self._list_deferred()
        contents = f"{_DEFERRED_INTRO}\n{names}" if names else _NOTHING_DEFERRED
        return {**super().definition, "description": f"{_DESCRIPTION}\n{contents}"}

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        query, limit = str(arguments["query"]), arguments.get("max_results", DEFAULT_MAX_RESULTS)
        findings = await self._find(query, limit if isinstance(limit, int) else DEFAULT_MAX_RESULTS)
        return _build_result(query, findings)


def replace_call_hints(wire: JsonObject) -> JsonObject:
    """Return the result for a client whose tool list contains the found tools."""
    content, structured = wire.get("content"), wire.get("structuredContent")
    blocks: list[Json] = list(content) if isinstance(content, list) else []
    result: JsonObject = {
        **wire,
        "content": [_replace_call_hint(block, "text") for block in blocks],
    }
    if isinstance(structured, dict):
        result["structuredContent"] = _replace_call_hint(structured, "message")
    return result


def _replace_call_hint(value: Json, key: str) -> Json:
    text = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(text, str) or CALL_TOOL_HINT not in text:
        return value
    return {**value, key: text.replace(CALL_TOOL_HINT, CALL_BY_NAME_HINT)}


def _build_result(query: str, findings: ToolSearchResult) -> ToolResult:
    """Return text and structure with equal content: a client may show its model only one."""
    shown, left_out = _select_within_budget(findings.tools)
    activated = tuple(t.rule_name for t in shown if t.rule_name in findings.deferred)
    how = CALL_TOOL_HINT if activated else CALL_BY_NAME_HINT
    message = "\n".join([*([how] if shown else []), *_iter_remarks(findings, left_out)])
    structured: JsonObject = {
        "query": query,
        "tools": [tool.definition for tool in shown],
        "total": findings.total,
        "connecting": list(findings.connecting),
        "failed": [down.server for down in findings.unavailable],
        "message": message,
    }
    texts = [*([_render_functions(shown)] if shown else []), message]
    content: list[Json] = [*map(build_text_block, texts)]
    wire: JsonObject = {"content": content, "structuredContent": structured}
    return ToolResult(wire, structured, (ToolsActivated(activated),) if activated else ())


def _select_within_budget(tools: Sequence[Tool]) -> tuple[list[Tool], list[Tool]]:
    """Return the tools that fit and those that do not; the first one always fits."""
    left, shown = MAX_DEFINITION_CHARS, list[Tool]()
    for tool in tools:
        left -= len(_render_function(tool))
        if left < 0 and shown:
            break
        shown.append(tool)
    return shown, list(tools[len(shown) :])


def _render_functions(tools: Sequence[Tool]) -> str:
    return "\n".join(["<functions>", *map(_render_function, tools), "</functions>"])


def _render_function(tool: Tool) -> str:
    definition = tool.definition
    shown: JsonObject = {
        "description": definition.get("description", ""),
        "name": tool.name,
        "parameters": definition.get("inputSchema", {}),
    }
    # Equal JSON in which no description can close the element or forge another one.
    text = json.dumps(shown, ensure_ascii=False).replace("<", "\\u003c")
    return f"<function>{text}</function>"


def _iter_remarks(findings: ToolSearchResult, left_out: Sequence[Tool]) -> Iterator[str]:
    if left_out:
        names = ",".join(tool.name for tool in left_out)
        yield f"Found as well, too long to show together; ask for fewer at a time: select:{names}"
    yield from findings.remarks
    if findings.connecting:
        yield f"Still connecting, not searched: {', '.join(findings.connecting)}. Try again later."
    for down in findings.unavailable:
        yield f"Not available: {down.server} {_escape_problem(down.problem)}"


def _escape_problem(problem: str) -> str:
    """Return one line of limited length; the text comes from the server."""
    text = "".join(char if char.isprintable() else " " for char in problem[:_MAX_PROBLEM_CHARS])
    return text.replace("<", "&lt;")
