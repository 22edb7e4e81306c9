"""The chain of approvers: the MCP client, an attached terminal, then the configured fallback.

The next one is tried only if the one before cannot be asked.
"""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Final

import anyio

from mcp_dispatch.approval.form import read_answer
from mcp_dispatch.approval.pending import PendingApprovals, RememberCallback
from mcp_dispatch.approval.remember import NULL_RULE_WRITER, AllowRuleWriter
from mcp_dispatch.model.approval import (
    ApprovalReply,
    Approved,
    AskDeferred,
    Caller,
    CannotAsk,
    Declined,
    Question,
)
from mcp_dispatch.model.calls import ApprovalAnswer
from mcp_dispatch.model.client import PENDING_SECONDS
from mcp_dispatch.model.tools import Progress, ignore_progress

DEFAULT_TIMEOUT: Final = 50.0
"""Seconds to wait for an answer. Common clients give up on a call after 60."""

HEARTBEAT_SECONDS: Final = 5.0
APPROVALS_COMMAND: Final = "mcp-dispatch approvals"


@asynccontextmanager
async def approval_heartbeat(
    progress: Progress, interval: float = HEARTBEAT_SECONDS
) -> AsyncGenerator[None, None]:
    """Send progress notifications during the block, so that the client does not time out."""
    if progress is ignore_progress:
        yield
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_send_heartbeats, progress, interval)
        yield
        tasks.cancel_scope.cancel()


async def _send_heartbeats(progress: Progress, interval: float) -> None:
    started = time.monotonic()
    while True:
        await anyio.sleep(interval)
        waited = round(time.monotonic() - started)
        await progress({"progress": waited, "message": "waiting for approval"})


class AskFallback(Enum):
    """The result of a question when neither the client nor a terminal can be asked."""

    DENY = "deny"
    CLIENT = "client"
    """Allow the call if the client's own confirmation covers it."""


class Approver:
    """Asks a question through the first approver that can be asked."""

    def __init__(
        self,
        fallback: AskFallback = AskFallback.DENY,
        *,
        pending: PendingApprovals | None = None,
        rule_writer: AllowRuleWriter = NULL_RULE_WRITER,
        timeout: float = DEFAULT_TIMEOUT,
        command: str = APPROVALS_COMMAND,
    ) -> None:
        self._fallback = fallback
        self._pending = pending or PendingApprovals()
        self.rule_writer = rule_writer
        self._timeout = timeout
        self._command = command

    async def ask(
        self,
        question: Question,
        caller: Caller,
        *,
        not_covered_by_client: str | None,
        remember: RememberCallback,
    ) -> Approved | Declined | AskDeferred:
        """Return the reply of a person, or the fallback.

        `not_covered_by_client` names what the client's own confirmation does not cover, if
        anything. `remember` saves a lasting approval that arrives after the call has ended.
        """
        earlier = self._pending.pop_answer(question)
        if earlier is not None:
            return earlier
        reply: ApprovalReply = await caller.ask(question)
        if not isinstance(reply, CannotAsk):
            return reply
        if self._pending.terminal_count:
            return await self._ask_terminal(question, caller, remember)
        if self._fallback is AskFallback.CLIENT and not_covered_by_client is None:
            return Approved(by="fallback")
        self._pending.add_detached(question, remember)
        return Declined(self._explain_cannot_ask(question, not_covered_by_client))

    def read_answer(self, answer: ApprovalAnswer) -> Approved | Declined:
        """Parse the answer that a retried call contains."""
        return read_answer(answer.response, answer.context.options)

    async def _ask_terminal(
        self, question: Question, caller: Caller, remember: RememberCallback
    ) -> Approved | Declined:
        async with approval_heartbeat(caller.progress):
            reply = await self._pending.wait_for_answer(question, remember, self._timeout)
        if reply is not None:
            return reply
        problem = f"nobody answered the question within {self._timeout:g} seconds"
        return Declined(f"{problem}{self._suggest_next_step(question)}")

    def _explain_cannot_ask(self, question: Question, not_covered_by_client: str | None) -> str:
        problem = "this client cannot be asked"
        if self._fallback is AskFallback.CLIENT and not_covered_by_client is not None:
            problem = f"{problem}, and --ask-fallback client does not cover {not_covered_by_client}"
        return f"{problem}{self._suggest_next_step(question)}"

    def _suggest_next_step(self, question: Question) -> str:
        """Return sentences that follow the description of the problem."""
        advice = ""
        if self._pending.reachable:
            minutes = round(PENDING_SECONDS / 60)
            advice = (
                f". The user can answer with `{self._command}` in a terminal within {minutes} "
                "minutes; make exactly the same call again after that"
            )
        if question.allow_line is not None:
            line = question.allow_line
            advice = f'{advice}. To allow it, add to "permissions" in settings.json: {line}'
        return advice
