"""PermittedCall -> Executed: run the tool; an exception becomes a result with `isError`."""

import logging
import time
from dataclasses import replace

import anyio

from mcp_dispatch.model.calls import Executed, PermittedCall
from mcp_dispatch.model.client import InputRequired
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.outcome import ProtocolError, Suspended
from mcp_dispatch.model.tools import CallContext, Interrupt, ToolResult, build_error_result
from mcp_dispatch.pipeline.call_env import CallEnv
from mcp_dispatch.pipeline.pending import PendingRequest, identify_call

logger = logging.getLogger(__name__)


ToolAnswer = ToolResult | ProtocolError | InputRequired

_NOT_RUN = ProtocolError(-32603, "Internal error: the tool was not run")


async def execute(permitted: PermittedCall, env: CallEnv) -> Executed | ProtocolError | Suspended:
    env.run.mark_tool_started()
    started = time.monotonic()
    answer: ToolAnswer = _NOT_RUN
    # A tool that blocks interrupts finishes what it began; only its answer is dropped.
    with anyio.CancelScope(shield=permitted.tool.interrupt is Interrupt.BLOCK):
        answer = await _run_tool(permitted, env.context)
    if isinstance(answer, InputRequired):
        return _suspend(answer, permitted, env)
    if not isinstance(answer, ToolResult):
        return answer
    executed = Executed(permitted, answer, time.monotonic() - started)
    await env.slot.ensure_acquired()
    env.run.record_result(executed)
    return executed


async def _run_tool(permitted: PermittedCall, context: CallContext) -> ToolAnswer:
    try:
        context = replace(context, decision=permitted.decision, judged_paths=permitted.judged_paths)
        return await permitted.tool.run(permitted.arguments, context)
    except Refused:
        # Something changed after the check. The tool has done nothing.
        raise
    except Exception as error:  # a tool's code may raise anything
        logger.exception("tool %s failed in call %s", permitted.tool.rule_name, context.call_id)
        return build_error_result(
            f"<tool_use_error>{permitted.tool.name} failed unexpectedly: "
            f"{type(error).__name__}: {error}. The server's log has the details.</tool_use_error>"
        )


def _suspend(required: InputRequired, permitted: PermittedCall, env: CallEnv) -> Suspended:
    """The client has to answer a question of the server and to send the call again."""
    pending = PendingRequest(required.continuation, permitted.reviewed.review)
    state = env.scope.pending_requests.add(identify_call(env.call), pending)
    return Suspended(required.input_requests, state)
