"""CheckedCall -> ReviewedCall: run PreToolUse hooks; a rewrite is validated and checked again."""

from collections.abc import Callable, Coroutine
from typing import Any

from anyio import to_thread

from mcp_dispatch.hooks.events import HookEventName
from mcp_dispatch.model.calls import CheckedCall, PreHookResult, ReviewedCall, ToolCall
from mcp_dispatch.pipeline.call_env import CallEnv
from mcp_dispatch.policy.commands.expand import parse_command
from mcp_dispatch.policy.subject import Subject


async def run_pre_hooks(checked: CheckedCall, env: CallEnv) -> ReviewedCall:
    """Hooks run once per call: a call that is sent again with an answer keeps their first result."""
    review = _find_earlier_result(checked.call)
    if review is None and HookEventName.PRE_TOOL_USE not in env.hooks.events:
        review = PreHookResult()
    if review is None:
        review = await env.hooks.run_pre_tool_use(
            checked, env.hook_context, concurrent_task=_build_command_parser(checked)
        )
    if review.rewrite is None:
        return ReviewedCall(checked, checked, review)
    return ReviewedCall(await env.recheck_rewrite(checked, review.rewrite), checked, review)


def _build_command_parser(checked: CheckedCall) -> Callable[[], Coroutine[Any, Any, None]] | None:
    """Return a task that parses the shell command while hooks run, so that the rules find it in
    the cache. None if the call has no command."""
    tool, arguments = checked.tool, checked.arguments
    command = Subject(tool.rule_name, tool.name, tool.server, arguments, arguments, None).command
    if command is None:
        return None

    async def parse() -> None:
        await to_thread.run_sync(parse_command, command)

    return parse


def _find_earlier_result(call: ToolCall) -> PreHookResult | None:
    if call.call_retry is not None:
        return call.call_retry.review
    return call.approval_answer.context.review if call.approval_answer is not None else None
