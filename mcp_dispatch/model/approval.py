"""Asking a person: the question, and the replies that can come back."""

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from mcp_dispatch.model.client import Client
from mcp_dispatch.model.decision import Decision
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import Progress


class ApprovalScope(Enum):
    """How far a yes reaches."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class RememberOptions:
    """What a lasting yes would set down: these rules, and for "always" in this file.

    Without rules only this one call can be allowed; without a file not for good.
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
    """May this exact call run?"""

    tool: str
    arguments: JsonObject
    decision: Decision
    allow_line: str | None
    """The line of settings.json that would have made the question needless, if there is one."""

    options: RememberOptions = ONCE_ONLY
    key: str = ""
    """The same for the same call of the same scope, asked for the same reason; nothing else has it."""

    scope_id: str = ""
    via_call_tool: bool = False
    """The call came through `call_tool`."""


@dataclass(frozen=True, slots=True)
class Approved:
    """A yes to this call, and to more of its kind where it reaches further."""

    scope: ApprovalScope = ApprovalScope.ONCE
    by: str = field(default="client", compare=False)
    """Who was asked: the client, a terminal, or nobody (the fallback)."""


@dataclass(frozen=True, slots=True)
class Declined:
    """A no, a cancel, a time-out or an answer that makes no sense."""

    reason: str


@dataclass(frozen=True, slots=True)
class CannotAsk:
    """The question could not be put. Only this moves on to the next approver."""


@dataclass(frozen=True, slots=True)
class AskDeferred:
    """A 2026-07-28 client takes the question along and makes the call again with the answer."""

    input_requests: JsonObject


ApprovalReply = Approved | Declined | CannotAsk | AskDeferred


class Caller(Protocol):
    """Whoever made the call, as far as the pipeline needs to reach them."""

    @property
    def progress(self) -> Progress: ...

    @property
    def client(self) -> Client:
        """For the questions of servers."""
        ...

    async def ask(self, question: Question) -> ApprovalReply: ...

    async def wait_until_ready(self) -> None:
        """Waits until the caller takes answers again, so that unread ones stay bounded."""
        ...
