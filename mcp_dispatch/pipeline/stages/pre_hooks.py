"""CheckedCall -> ReviewedCall: PreToolUse hooks speak; a rewrite is validated and checked again."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

from anyio import to_thread

from mcp_dispatch.hooks.events import Event
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.model.calls import CheckedCall, Review, ReviewedCall, Rewrite, ToolCall
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.hook_context import Circumstances
from mcp_dispatch.policy.commands.expand import reading
from mcp_dispatch.policy.subject import Subject

Rewritten = Callable[[CheckedCall, Rewrite], Awaitable[CheckedCall]]


async def run_pre_hooks(
    hooks: Hooks, checked: CheckedCall, circumstances: Circumstances, rewritten: Rewritten
) -> ReviewedCall:
    """Hooks run once per call: a call made again with an answer keeps what they said before."""
    review = _said_before(checked.call)
    if review is None and not hooks.waits_for(Event.PRE_TOOL_USE):
        review = Review()
    if review is None:
        review = await hooks.before(checked, circumstances, beside=_classifying(checked))
    if review.rewrite is None:
        return ReviewedCall(checked, checked, review)
    return ReviewedCall(await rewritten(checked, review.rewrite), checked, review)


@contextmanager
def blaming(rewrite: Rewrite) -> Generator[None, None, None]:
    """A refusal of rewritten arguments names the hook that rewrote them."""
    try:
        yield
    except Refused as refused:
        message = f"the arguments as rewritten by the hook {rewrite.by}: {refused}"
        raise Refused(refused.refusal.by, message) from refused


def _classifying(checked: CheckedCall) -> Callable[[], Coroutine[Any, Any, None]] | None:
    """Reads the shell command of the call while its hooks run; the rules find it read."""
    tool, arguments = checked.tool, checked.arguments
    command = Subject(tool.rule_name, tool.name, tool.server, arguments, arguments, None).command
    if command is None:
        return None

    async def classify() -> None:
        await to_thread.run_sync(reading, command)

    return classify


def _said_before(call: ToolCall) -> Review | None:
    if call.resumed is not None:
        return call.resumed.review
    return call.answered.asked.review if call.answered is not None else None
