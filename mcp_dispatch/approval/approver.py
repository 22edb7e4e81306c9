"""The chain of approvers: the MCP client itself, then the fallback of this registration."""

from enum import Enum

from mcp_dispatch.approval.form import read_answer
from mcp_dispatch.model.calls import Answered
from mcp_dispatch.model.questions import (
    Approved,
    Caller,
    Declined,
    LeftWithClient,
    NobodyToAsk,
    Question,
    Reply,
)


class AskFallback(Enum):
    """What becomes of a soft ask when nobody can be asked."""

    DENY = "deny"
    CLIENT = "client"


class Approver:
    """Puts a question to whoever can answer it."""

    def __init__(self, fallback: AskFallback = AskFallback.DENY) -> None:
        self._fallback = fallback

    async def ask(
        self, question: Question, caller: Caller, *, uncovered: str | None
    ) -> Approved | Declined | LeftWithClient:
        """`uncovered` says why the client's own confirmation is not enough, if it is not."""
        reply: Reply = await caller.ask(question)
        if not isinstance(reply, NobodyToAsk):
            return reply
        if self._fallback is AskFallback.CLIENT and uncovered is None:
            return Approved()
        return Declined(self._unanswerable(question, uncovered))

    def read(self, answered: Answered) -> Approved | Declined:
        """The answer that came back with a retried call."""
        return read_answer(answered.response)

    def _unanswerable(self, question: Question, uncovered: str | None) -> str:
        why = "this client cannot be asked"
        if self._fallback is AskFallback.CLIENT and uncovered is not None:
            why = f"{why}, and --ask-fallback client does not cover {uncovered}"
        return f'{why}. To allow it, add to "permissions" in settings.json: {question.allow_line}'
