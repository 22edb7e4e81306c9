"""CheckedCall -> ReviewedCall: PreToolUse hooks speak; a rewrite is validated and checked again."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

from anyio import to_thread

from mcp_dispatch.hooks.events import HookEventName
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.model.calls import CheckedCall, PreHookResult, ReviewedCall, Rewrite, ToolCall
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.policy.commands.expand import parse_command
from mcp_dispatch.policy.subject import Subject

CheckRewrite = Callable[[CheckedCall, Rewrite], Awaitable[CheckedCall]]


async def run_pre_hooks(
    hooks: Hooks, checked: CheckedCall, hook_context: HookContext, check_rewrite: CheckRewrite
) -> ReviewedCall:
    """Hooks run once per call: a call made again with an answer keeps what they said before."""
    review = _find_earlier_result(checked.call)
    if review is None and HookEventName.PRE_TOOL_USE not in hooks.events:
        review = PreHookResult()
    if review is None:
        review = await hooks.run_pre_tool_use(
            checked, hook_context, concurrent_task=_build_command_parser(checked)
        )
    if review.rewrite is None:
        return ReviewedCall(checked, checked, review)
    return ReviewedCall(await check_rewrite(checked, review.rewrite), checked, review)


@contextmanager
def explain_rewrite_refusal(rewrite: Rewrite) -> Generator[None, None, None]:
    """A refusal of rewritten arguments names the hook that rewrote them."""
    try:
        yield
    except Refused as refused:
        message = f"the arguments as rewritten by the hook {rewrite.by}: {refused}"
        raise Refused(refused.refusal.by, message) from refused


def _build_command_parser(checked: CheckedCall) -> Callable[[], Coroutine[Any, Any, None]] | None:
    """Reads the shell command of the call while its hooks run; the rules find it read."""
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
