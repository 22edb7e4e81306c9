"""ValidCall -> CheckedCall: the tool's own semantic check, which makes paths absolute."""

from mcp_dispatch.model.calls import CheckedCall, ValidCall
from mcp_dispatch.model.tools import CallContext


async def check(valid: ValidCall, context: CallContext) -> CheckedCall:
    checked = await valid.resolved.tool.check(valid.arguments, context)
    return CheckedCall(valid, checked.arguments, checked.ask)
