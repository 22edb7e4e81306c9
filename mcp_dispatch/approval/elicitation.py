"""Asking the client for an approval: during the call up to 2025-11-25, by a retried call since."""

from typing import Any, Final, Protocol

import anyio
from mcp_types import METHOD_NOT_FOUND

from mcp_dispatch.approval.approver import approval_heartbeat
from mcp_dispatch.approval.form import build_elicitation, read_answer
from mcp_dispatch.model.approval import Approved, AskDeferred, CannotAsk, Declined, Question
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.wire.sdk import MCPError

INPUT_KEY: Final = "permission"
"""The key under which a 2026-07-28 client sends the answer back."""


class ClientChannel(Protocol):
    """Sends requests to the client that belong to one of its own requests."""

    async def send_raw_request(self, method: str, params: JsonObject) -> dict[str, Any]: ...


def can_elicit(capabilities: JsonObject) -> bool:
    """Whether the client shows forms: `elicitation` is empty, or lists the mode `form`."""
    modes = capabilities.get("elicitation")
    return isinstance(modes, dict) and (not modes or "form" in modes)


def defer_question(question: Question) -> AskDeferred:
    """Return the question for a 2026-07-28 client, which retries the call with the answer."""
    return AskDeferred(
        {INPUT_KEY: {"method": "elicitation/create", "params": build_elicitation(question)}}
    )


async def elicit_answer(
    question: Question,
    channel: ClientChannel,
    *,
    with_mode: bool,
    progress: Progress,
    timeout: float,
) -> Approved | Declined | CannotAsk:
    """Ask a client up to 2025-11-25 while its call waits.

    Clients before 2025-11-25 do not know the parameter `mode`; `with_mode` is False for them.
    """
    form = build_elicitation(question)
    if not with_mode:
        del form["mode"]
    async with approval_heartbeat(progress):
        with anyio.move_on_after(timeout):
            return await _send_form(channel, form, question)
    return Declined(f"nobody answered the question within {timeout:g} seconds")


async def _send_form(
    channel: ClientChannel, form: JsonObject, question: Question
) -> Approved | Declined | CannotAsk:
    try:
        answer: Json = await channel.send_raw_request("elicitation/create", form)
    except MCPError as error:
        if error.error.code == METHOD_NOT_FOUND:
            return CannotAsk()
        return Declined(f"the client could not show the question: {error.error.message}")
    return read_answer(answer, question.options)
