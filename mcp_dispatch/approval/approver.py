"""The chain of approvers: the MCP client itself, a terminal that is attached, then the fallback of
this registration. Only who cannot be asked is passed over."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Final

import anyio

from mcp_dispatch.approval.form import read_answer
from mcp_dispatch.approval.pending import OPEN_SECONDS, Desk, Remember
from mcp_dispatch.approval.remember import NOWHERE, AlwaysAllowed
from mcp_dispatch.model.approval import (
    Approved,
    Caller,
    Declined,
    LeftWithClient,
    NobodyToAsk,
    Question,
    Reply,
)
from mcp_dispatch.model.calls import Answered
from mcp_dispatch.model.tools import Progress, no_progress

DEFAULT_TIMEOUT: Final = 50.0
"""Seconds. Common clients give up on a call at 60."""

HEARTBEAT: Final = 5.0


@asynccontextmanager
async def telling_that_we_wait(
    progress: Progress, every: float = HEARTBEAT
) -> AsyncGenerator[None, None]:
    if progress is no_progress:
        yield
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_beat, progress, every)
        yield
        tasks.cancel_scope.cancel()


async def _beat(progress: Progress, every: float) -> None:
    started = time.monotonic()
    while True:
        await anyio.sleep(every)
        waited = round(time.monotonic() - started)
        await progress({"progress": waited, "message": "waiting for approval"})


COMMAND = "mcp-dispatch approvals"


class AskFallback(Enum):
    """What becomes of a soft ask when nobody can be asked."""

    DENY = "deny"
    CLIENT = "client"


class Approver:
    """Puts a question to whoever can answer it."""

    def __init__(
        self,
        fallback: AskFallback = AskFallback.DENY,
        *,
        desk: Desk | None = None,
        always: AlwaysAllowed = NOWHERE,
        timeout: float = DEFAULT_TIMEOUT,
        command: str = COMMAND,
    ) -> None:
        self._fallback = fallback
        self._desk = desk or Desk()
        self.always = always
        self._timeout = timeout
        self._command = command

    async def ask(
        self, question: Question, caller: Caller, *, uncovered: str | None, remember: Remember
    ) -> Approved | Declined | LeftWithClient:
        """`uncovered` says why the client's own confirmation is not enough, if it is not;
        `remember` sets a lasting yes down that comes when the call is over."""
        earlier = self._desk.take(question)
        if earlier is not None:
            return earlier
        reply: Reply = await caller.ask(question)
        if not isinstance(reply, NobodyToAsk):
            return reply
        if self._desk.terminals:
            return await self._ask_terminal(question, caller, remember)
        if self._fallback is AskFallback.CLIENT and uncovered is None:
            return Approved(by="fallback")
        self._desk.leave(question, remember)
        return Declined(self._unanswerable(question, uncovered))

    def read(self, answered: Answered) -> Approved | Declined:
        """The answer that came back with a retried call."""
        return read_answer(answered.response, answered.asked.offer)

    async def _ask_terminal(
        self, question: Question, caller: Caller, remember: Remember
    ) -> Approved | Declined:
        async with telling_that_we_wait(caller.progress):
            reply = await self._desk.wait(question, remember, self._timeout)
        if reply is not None:
            return reply
        late = f"nobody answered the question within {self._timeout:g} seconds"
        return Declined(f"{late}{self._advice(question)}")

    def _unanswerable(self, question: Question, uncovered: str | None) -> str:
        why = "this client cannot be asked"
        if self._fallback is AskFallback.CLIENT and uncovered is not None:
            why = f"{why}, and --ask-fallback client does not cover {uncovered}"
        return f"{why}{self._advice(question)}"

    def _advice(self, question: Question) -> str:
        """What can be done, as sentences to follow what happened."""
        advice = ""
        if self._desk.reachable:
            minutes = round(OPEN_SECONDS / 60)
            advice = (
                f". The user can answer with `{self._command}` in a terminal within {minutes} "
                "minutes; make exactly the same call again after that"
            )
        if question.allow_line is not None:
            line = question.allow_line
            advice = f'{advice}. To allow it, add to "permissions" in settings.json: {line}'
        return advice
