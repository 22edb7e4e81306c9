"""All matching hooks of one event: run side by side, each to its end, heard, logged and recorded."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

import anyio

from mcp_dispatch.hooks.actions import Command, HttpPost, UpstreamCall
from mcp_dispatch.hooks.config import Hook, Matched
from mcp_dispatch.hooks.engine__records import cancelled, records_of, summary
from mcp_dispatch.hooks.events import Event, hook_name
from mcp_dispatch.hooks.merge import Spoken, framed_context, heeded
from mcp_dispatch.hooks.output import Failure, HookAnswer, Printed, read_answer
from mcp_dispatch.hooks.runners.command import CommandRunner
from mcp_dispatch.hooks.runners.http import HttpRunner
from mcp_dispatch.hooks.runners.mcp_tool import UpstreamRunner
from mcp_dispatch.model.hook_context import Circumstances
from mcp_dispatch.model.text__text import LONGEST_TEXT, first_line, visible
from mcp_dispatch.processes.children import Children

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Occasion:
    """What happened: the event, what it is about (a tool, a server), and the document of it."""

    event: Event
    about: str
    document: bytes
    circumstances: Circumstances

    @property
    def name(self) -> str:
        return hook_name(self.event, self.about)


class Engine:
    """`children` keeps the hooks that nobody waits for."""

    def __init__(
        self,
        children: Children,
        commands: CommandRunner,
        posts: HttpRunner,
        upstreams: UpstreamRunner,
    ) -> None:
        self._children = children
        self._commands = commands
        self._posts = posts
        self._upstreams = upstreams

    async def hear(self, matching: Sequence[Matched], occasion: Occasion) -> list[Spoken]:
        """Their answers in configuration order, whichever came first."""
        spoken: dict[int, Spoken] = {}
        started = time.monotonic()

        async def listen(place: int, matched: Matched) -> None:
            spoken[place] = await self._listen(matched, occasion)

        async with anyio.create_task_group() as tasks:
            for place, matched in enumerate(matching):
                # What ends with the session has nothing to come after it.
                if matched.hook.action.background and occasion.event is not Event.SESSION_END:
                    self._children.beside(partial(self._in_background, matched, occasion))
                else:
                    tasks.start_soon(listen, place, matched)
        heard = [spoken[place] for place in sorted(spoken)]
        if heard:
            seconds = time.monotonic() - started
            await occasion.circumstances.outlets.record(summary(occasion.name, heard, seconds))
        return heard

    async def _listen(self, matched: Matched, occasion: Occasion) -> Spoken:
        hook, outlets = matched.hook, occasion.circumstances.outlets
        if hook.action.status:
            await outlets.status(visible(hook.action.status))
        try:
            answer = await self._answer(hook, occasion)
        except anyio.get_cancelled_exc_class():
            await outlets.record(cancelled(occasion.name, hook, "the call was cancelled"))
            raise
        if len(answer.context) > LONGEST_TEXT:
            answer = replace(answer, context=await outlets.keep(answer.context))
        spoken = heeded(matched, answer, occasion.about)
        _log(occasion.name, spoken)
        for record in records_of(occasion.name, spoken):
            await outlets.record(record)
        return spoken

    async def _in_background(self, matched: Matched, occasion: Occasion) -> None:
        """What it says for the model waits for the next result."""
        try:
            spoken = await self._listen(matched, occasion)
        except Exception:  # it runs beside everything: its trouble is its own
            logger.exception("hook %s failed unexpectedly", matched.hook.action.label)
            return
        if text := framed_context(occasion.about, spoken):
            occasion.circumstances.outlets.later(text)

    async def _answer(self, hook: Hook, occasion: Occasion) -> HookAnswer:
        heard = await self._heard(hook, occasion)
        if isinstance(heard, Failure):
            return HookAnswer(failure=heard)
        if heard.stderr:
            _say(logging.DEBUG, occasion.name, hook, f"stderr: {first_line(heard.stderr)}")
        return read_answer(hook.event, heard)

    async def _heard(self, hook: Hook, occasion: Occasion) -> Printed | Failure:
        document, circumstances = occasion.document, occasion.circumstances
        match hook.action:
            case Command() as command:
                return await self._commands.run(command, document, circumstances)
            case HttpPost() as post:
                return await self._posts.run(post, document)
            case UpstreamCall() as call:
                return await self._upstreams.run(call, document, hook.origin, circumstances)
            case _:
                assert_never(hook.action)


def _log(name: str, spoken: Spoken) -> None:
    answer = spoken.answer
    if answer.failure is not None:
        _say(logging.WARNING, name, spoken.hook, f"hook error: {answer.failure.message}")
    for note in answer.notes:
        _say(logging.WARNING, name, spoken.hook, note)
    if answer.message:
        _say(logging.INFO, name, spoken.hook, f"says: {answer.message}")


def _say(level: int, name: str, hook: Hook, what: str) -> None:
    logger.log(level, "%s [%s]: %s", visible(name), hook.action.label, visible(what))
