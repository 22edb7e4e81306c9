"""Asking a person: the question, and the replies that can come back."""

from dataclasses import dataclass
from typing import Protocol

from mcp_dispatch.model.decision import Decision
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import Progress


@dataclass(frozen=True, slots=True)
class Question:
    """May this exact call run?"""

    tool: str
    arguments: JsonObject
    decision: Decision
    allow_line: str
    """The line of settings.json that would have made the question needless."""


@dataclass(frozen=True, slots=True)
class Approved:
    """This call, once."""


@dataclass(frozen=True, slots=True)
class Declined:
    """A no, a cancel, a time-out or an answer that makes no sense."""

    reason: str


@dataclass(frozen=True, slots=True)
class NobodyToAsk:
    """The question could not be put. Only this moves on to the next approver."""


@dataclass(frozen=True, slots=True)
class LeftWithClient:
    """A 2026-07-28 client takes the question along and makes the call again with the answer."""

    input_requests: JsonObject


Reply = Approved | Declined | NobodyToAsk | LeftWithClient


class Caller(Protocol):
    """Whoever made the call, as far as the pipeline needs to reach them."""

    @property
    def progress(self) -> Progress: ...

    async def ask(self, question: Question) -> Reply: ...

    async def ready(self) -> None:
        """Waits until the caller takes answers again, so that unread ones stay bounded."""
        ...
