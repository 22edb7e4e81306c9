"""CheckedCall -> ReviewedCall: PreToolUse hooks speak; a rewrite is validated and checked again."""

from collections.abc import Awaitable, Callable

from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.model.calls import CheckedCall, ReviewedCall, Rewrite
from mcp_dispatch.model.circumstances import Circumstances
from mcp_dispatch.model.errors import Refused

Recheck = Callable[[CheckedCall, Rewrite], Awaitable[CheckedCall]]


async def run_pre_hooks(
    hooks: Hooks, checked: CheckedCall, circumstances: Circumstances, recheck: Recheck
) -> ReviewedCall:
    """Hooks run once per call: a call made again with an answer keeps what they said before."""
    answered = checked.call.answered
    review = answered.asked.review if answered else await hooks.before(checked, circumstances)
    if review.rewrite is None:
        return ReviewedCall(checked, checked, review)
    try:
        rewritten = await recheck(checked, review.rewrite)
    except Refused as refused:
        message = f"the arguments as rewritten by the hook {review.rewrite.by}: {refused}"
        raise Refused(refused.refusal.by, message) from refused
    return ReviewedCall(rewritten, checked, review)
