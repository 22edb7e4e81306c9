"""The person who makes a call from a terminal, and is asked right there whether it may run."""

import os
import sys
from dataclasses import replace

import anyio

from mcp_dispatch.approval.form import elicitation
from mcp_dispatch.model.approval import ONLY_ONCE, Approved, Declined, Question, Reply
from mcp_dispatch.model.client import Client, NoClient
from mcp_dispatch.model.json import JsonObject

_LONGEST = 4096


class Person:
    """Whoever runs the command. Nothing but a `y` is a yes."""

    async def progress(self, update: JsonObject) -> None:
        return None

    @property
    def client(self) -> Client:
        """A server's own questions have nobody to go to."""
        return NoClient()

    async def ask(self, question: Question) -> Reply:
        # This process ends with the call: a question could not stay open for `approvals`.
        if not _can_ask():
            return Declined(_unanswerable(question))
        _forget_what_was_typed()
        form = elicitation(replace(question, offer=ONLY_ONCE))
        print(f"{form['message']}\n\nAllow this one call? [y/N] ", end="", file=sys.stderr)
        sys.stderr.flush()
        yes = (await _line()).strip().lower() in ("y", "yes")
        return Approved(by="terminal") if yes else Declined("the user refused")

    async def ready(self) -> None:
        return None


def _can_ask() -> bool:
    return sys.platform != "win32" and sys.stdin.isatty() and sys.stderr.isatty()


def _forget_what_was_typed() -> None:
    """Who typed before the question was there had not read it."""
    if sys.platform != "win32":
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _line() -> str:
    await anyio.wait_readable(sys.stdin)
    return os.read(sys.stdin.fileno(), _LONGEST).decode(errors="replace")


def _unanswerable(question: Question) -> str:
    why = "there is no terminal to ask on"
    if question.allow_line is None:
        return why
    return f'{why}. To allow it, add to "permissions" in settings.json: {question.allow_line}'
