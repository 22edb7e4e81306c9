"""call_tool: an envelope around the call of any tool, for clients whose list does not grow."""

from dataclasses import replace

from mcp_dispatch.model.calls import ToolCall
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import CALL_TOOL, parse_call_tool
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    Interrupt,
    ToolResult,
    build_error_result,
)
from mcp_dispatch.tools.base import BuiltInTool, ToolDeclaration

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
    # What is inside may be anything.
    read_only=False,
    destructive=True,
    idempotent=False,
    open_world=True,
    interrupt=Interrupt.CANCEL,
    result_limit=None,
)


def unwrap_call_tool(call: ToolCall) -> ToolCall:
    """The call in the envelope; one that has none, or whose envelope cannot be opened, as it is."""
    found = None if call.via_call_tool else parse_call_tool(call.name, call.arguments)
    return (
        call
        if found is None
        else replace(call, name=found[0], arguments=found[1], via_call_tool=True)
    )


class CallTool(BuiltInTool):
    """Listed like a tool. Only envelopes that were not opened come this far: torn ones, those
    around an envelope, and all of them where a rule denies `call_tool`."""

    def __init__(self) -> None:
        super().__init__(_DECLARATION)

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        if arguments.get("name") == CALL_TOOL:
            raise Refused(
                RefusedBy.SEMANTIC,
                "call_tool cannot call itself; name the tool that is meant and give its arguments",
            )
        return CheckResult(arguments)

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        return build_error_result("call_tool was not opened; call it again")
