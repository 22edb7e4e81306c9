"""PermittedCall -> Executed: the tool runs; what it raises becomes a result with `isError`."""

import logging
import time
from dataclasses import replace

import anyio

from mcp_dispatch.model.calls import Executed, PermittedCall
from mcp_dispatch.model.client import InputRequired
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import CallContext, Interrupt, ToolResult, build_error_result

logger = logging.getLogger(__name__)


ToolAnswer = ToolResult | ProtocolError | InputRequired

_NOT_RUN = ProtocolError(-32603, "Internal error: the tool was not run")


async def execute(
    permitted: PermittedCall, context: CallContext
) -> Executed | ProtocolError | InputRequired:
    started = time.monotonic()
    answer: ToolAnswer = _NOT_RUN
    # A tool that blocks interrupts finishes what it began; only its answer is dropped.
    with anyio.CancelScope(shield=permitted.tool.interrupt is Interrupt.BLOCK):
        answer = await _run_tool(permitted, context)
    if not isinstance(answer, ToolResult):
        return answer
    return Executed(permitted, answer, time.monotonic() - started)


async def _run_tool(permitted: PermittedCall, context: CallContext) -> ToolAnswer:
    try:
        known = replace(context, decision=permitted.decision, judged_paths=permitted.judged_paths)
        return await permitted.tool.run(permitted.arguments, known)
    except Refused:
        # The world changed since the tool was checked: it has done nothing.
        raise
    except Exception as error:  # guards against the tool's code, which is not ours to trust
        logger.exception("tool %s failed in call %s", permitted.tool.rule_name, context.call_id)
        return build_error_result(
            f"<tool_use_error>{permitted.tool.name} failed unexpectedly: "
            f"{type(error).__name__}: {error}. The server's log has the details.</tool_use_error>"
        )
