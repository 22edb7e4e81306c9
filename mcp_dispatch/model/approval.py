"""Approval of a call by a person: the question, and the possible replies."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from mcp_dispatch.model.client import Client
from mcp_dispatch.model.decision import Decision
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import Progress


class ApprovalScope(Enum):
    """How long an approval holds."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class RememberOptions:
    """What a lasting approval stores: these rules, for "always" in this file.

    Without rules only this one call can be allowed; without a file, an approval ends with the
    session.
    """

    rules: tuple[str, ...] = ()
    file: Path | None = None

    @property
    def scopes(self) -> tuple[ApprovalScope, ...]:
        if not self.rules:
            return (ApprovalScope.ONCE,)
        lasting = (ApprovalScope.ONCE, ApprovalScope.SESSION)
        return lasting if self.file is None else (*lasting, ApprovalScope.ALWAYS)


ONCE_ONLY = RememberOptions()


@dataclass(frozen=True, slots=True)
class Question:
    """The question whether this exact call may run."""

    tool: str
    arguments: JsonObject
    decision: Decision
    allow_line: str | None
    """The line of settings.json that would allow the call without a question, if there is one."""

    options: RememberOptions = ONCE_ONLY
    key: str = ""
    """Identifies the call, its scope and the reason to ask; equal questions have equal keys."""

    scope_id: str = ""
    via_call_tool: bool = False
    """Whether the call came through `call_tool`."""


@dataclass(frozen=True, slots=True)
class Approved:
    """The call may run; for a longer `scope`, similar calls may run too."""

    scope: ApprovalScope = ApprovalScope.ONCE
    by: str = field(default="client", compare=False)
    """What approved the call: the client, a terminal, or the fallback."""


@dataclass(frozen=True, slots=True)
class Declined:
    """A refusal, a cancellation, a timeout or an invalid answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class CannotAsk:
    """The question could not be asked. Only this reply makes the next approver ask."""


@dataclass(frozen=True, slots=True)
class AskDeferred:
    """A client of protocol version 2026-07-28 gets the question as the result of the call, and
    sends the call again with the answer."""

    input_requests: JsonObject


ApprovalReply = Approved | Declined | CannotAsk | AskDeferred


class Caller(Protocol):
    """The sender of a call, as far as the pipeline needs it."""

    @property
    def progress(self) -> Progress: ...

    @property
    def client(self) -> Client:
        """Receives the requests that servers send while they work on the call."""
        ...

    async def ask(self, question: Question) -> ApprovalReply: ...

    async def wait_until_ready(self) -> None:
        """Wait until the caller reads results again, so that the number of unread results is
        bounded."""
        ...
