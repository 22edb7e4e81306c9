"""call_tool: calls any other tool by name, for clients that do not refresh their tool list."""

from dataclasses import replace

from mcp_dispatch.model.calls import ToolCall
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import CALL_TOOL, parse_call_tool
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    Interrupt,
    ToolResult,
    build_error_result,
)
from mcp_dispatch.tools.base import BuiltInTool, ToolDeclaration, build_refusal

_DECLARATION = ToolDeclaration(
    name=CALL_TOOL,
    title="Call a tool by name",
    description=(
        "Calls a tool that tool_search found and that is not in your list of tools. The call is "
        "validated, judged and recorded as a call of that tool itself."
    ),
    properties={
        "name": {
            "type": "string",
            "minLength": 1,
            "description": "The tool, as tool_search named it",
        },
        "arguments": {"type": "object", "description": "Its arguments, as its parameters say"},
    },
    required=("name",),
    # The wrapped call may be of any tool.
    read_only=False,
    destructive=True,
    idempotent=False,
    open_world=True,
    interrupt=Interrupt.CANCEL,
    result_limit=None,
)


def unwrap_call_tool(call: ToolCall) -> ToolCall:
    """Return the wrapped call; return `call` itself if it wraps none or is malformed."""
    wrapped = None if call.via_call_tool else parse_call_tool(call.name, call.arguments)
    if wrapped is None:
        return call
    name, arguments = wrapped
    return replace(call, name=name, arguments=arguments, via_call_tool=True)


class CallTool(BuiltInTool):
    """The tool in the list. `unwrap_call_tool` replaces its calls before they reach it.

    Those that remain are malformed, name `call_tool` itself, or are denied by a rule.
    """

    def __init__(self) -> None:
        super().__init__(_DECLARATION)

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        if arguments.get("name") == CALL_TOOL:
            raise build_refusal(
                "call_tool cannot call itself; name the tool that is meant and give its arguments",
            )
        return CheckResult(arguments)

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        return build_error_result("call_tool was not opened; call it again")
