"""Ask for approval on the terminal from which `call` was started."""

import os
import sys
from dataclasses import replace

import anyio

from mcp_dispatch.approval.form import build_elicitation
from mcp_dispatch.model.approval import ONCE_ONLY, ApprovalReply, Approved, Declined, Question
from mcp_dispatch.model.client import Client, NoClient
from mcp_dispatch.model.json import JsonObject

_MAX_ANSWER_BYTES = 4096


class TerminalCaller:
    """The person who runs the command. Only `y` and `yes` approve."""

    async def progress(self, update: JsonObject) -> None:
        return None

    @property
    def client(self) -> Client:
        """No client: questions of upstream servers cannot be asked."""
        return NoClient()

    async def ask(self, question: Question) -> ApprovalReply:
        # This process ends with the call, so a question cannot stay open for `approvals`.
        if not _can_ask():
            return Declined(_explain_no_terminal(question))
        _discard_typed_input()
        form = build_elicitation(replace(question, options=ONCE_ONLY))
        print(f"{form['message']}\n\nAllow this one call? [y/N] ", end="", file=sys.stderr)
        sys.stderr.flush()
        yes = (await _read_line()).strip().lower() in ("y", "yes")
        return Approved(by="terminal") if yes else Declined("the user refused")

    async def wait_until_ready(self) -> None:
        return None


def _can_ask() -> bool:
    return sys.platform != "win32" and sys.stdin.isatty() and sys.stderr.isatty()


def _discard_typed_input() -> None:
    """Discard what was typed before the question was shown."""
    if sys.platform != "win32":
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _read_line() -> str:
    await anyio.wait_readable(sys.stdin)
    return os.read(sys.stdin.fileno(), _MAX_ANSWER_BYTES).decode(errors="replace")


def _explain_no_terminal(question: Question) -> str:
    why = "there is no terminal to ask on"
    if question.allow_line is None:
        return why
    return f'{why}. To allow it, add to "permissions" in settings.json: {question.allow_line}'
