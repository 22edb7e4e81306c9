"""The client as the one who is asked: a live question up to 2025-11-25, one to take along since."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from mcp_dispatch.approval.approver import DEFAULT_TIMEOUT, approval_heartbeat
from mcp_dispatch.approval.form import build_elicitation, read_answer
from mcp_dispatch.model.approval import (
    ApprovalReply,
    Approved,
    AskDeferred,
    CannotAsk,
    Declined,
    Question,
    RememberOptions,
)
from mcp_dispatch.model.client import Client, NoClient
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Progress, ignore_progress

INPUT_KEY = "permission"
"""The key under which a 2026-07-28 client sends the answer back."""


class ClientChannel(Protocol):
    """The way back to the client, within one request."""

    async def send_raw_request(self, method: str, params: JsonObject) -> dict[str, Any]: ...
    async def notify(self, method: str, params: JsonObject) -> None: ...


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """What both kinds of caller know about the request they serve."""

    channel: ClientChannel
    capabilities: JsonObject
    progress_token: str | int | None
    wait_for_capacity: Callable[[], Awaitable[None]]
    client: Client = field(default_factory=NoClient)

    @property
    def can_elicit(self) -> bool:
        """A bare `elicitation` means forms; one that names modes must name `form`."""
        modes = self.capabilities.get("elicitation")
        return isinstance(modes, dict) and (not modes or "form" in modes)

    @property
    def progress(self) -> Progress:
        return ignore_progress if self.progress_token is None else self._send_progress

    async def _send_progress(self, params: JsonObject) -> None:
        told: JsonObject = {**params, "progressToken": self.progress_token}
        await self.channel.notify("notifications/progress", told)


@dataclass(frozen=True, slots=True)
class LiveCaller:
    """A client up to 2025-11-25: asked while its call waits."""

    request: ClientRequest
    supports_modes: bool
    """`mode` came with 2025-11-25; older clients are not sent it."""

    timeout: float = DEFAULT_TIMEOUT

    @property
    def progress(self) -> Progress:
        return self.request.progress

    @property
    def client(self) -> Client:
        return self.request.client

    async def wait_until_ready(self) -> None:
        await self.request.wait_for_capacity()

    async def ask(self, question: Question) -> ApprovalReply:
        if not self.request.can_elicit:
            return CannotAsk()
        form = build_elicitation(question)
        if not self.supports_modes:
            del form["mode"]
        async with approval_heartbeat(self.progress):
            with anyio.move_on_after(self.timeout):
                return await self._send_form(form, question.options)
        return Declined(f"nobody answered the question within {self.timeout:g} seconds")

    async def _send_form(
        self, form: JsonObject, options: RememberOptions
    ) -> Approved | Declined | CannotAsk:
        try:
            answer: Json = await self.request.channel.send_raw_request("elicitation/create", form)
        except MCPError as error:
            if error.error.code == METHOD_NOT_FOUND:
                return CannotAsk()
            return Declined(f"the client could not show the question: {error.error.message}")
        return read_answer(answer, options)


@dataclass(frozen=True, slots=True)
class RetryingCaller:
    """A 2026-07-28 client: takes the question along and makes the call again."""

    request: ClientRequest

    @property
    def progress(self) -> Progress:
        return self.request.progress

    @property
    def client(self) -> Client:
        return self.request.client

    async def wait_until_ready(self) -> None:
        await self.request.wait_for_capacity()

    async def ask(self, question: Question) -> ApprovalReply:
        if not self.request.can_elicit:
            return CannotAsk()
        return AskDeferred(
            {INPUT_KEY: {"method": "elicitation/create", "params": build_elicitation(question)}}
        )
