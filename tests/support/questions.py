"""Approval questions that several tests ask."""

from dataclasses import replace

from mcp_dispatch.model.approval import Approved, Question
from mcp_dispatch.model.decision import Decision, Effect, Origin, Tier, Vote

VOTE = Vote(Tier.UNDECIDED, Effect.ASK, "no rule covers this", Origin("default mode"))
QUESTION = Question(
    "Bash", {"command": "npm test"}, Decision(Effect.ASK, VOTE, (VOTE,)), '"allow": ["Bash"]'
)
KEYED_QUESTION = replace(QUESTION, key="this call", scope_id="scope")


async def forget(_: Approved) -> None:
    """Save nothing."""
