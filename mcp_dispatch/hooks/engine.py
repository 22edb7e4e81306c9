"""All matching hooks of one event: run side by side, each to its end, heard, logged and recorded."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

import anyio

from mcp_dispatch.hooks.actions import Command, HttpPost, UpstreamCall
from mcp_dispatch.hooks.config import Hook, Matched
from mcp_dispatch.hooks.events import Event, hook_name
from mcp_dispatch.hooks.merge import Spoken, framed_context, heeded
from mcp_dispatch.hooks.output import Failure, HookAnswer, Printed, read_answer
from mcp_dispatch.hooks.runners.command import CommandRunner
from mcp_dispatch.hooks.runners.http import HttpRunner
from mcp_dispatch.hooks.runners.mcp_tool import UpstreamRunner
from mcp_dispatch.model.hook_context import Circumstances, HookEvent, HookRecord
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.text import LONGEST_TEXT, escape_unprintable, first_line
from mcp_dispatch.processes.children import Children


def records_of(name: str, spoken: Spoken) -> Iterator[HookRecord]:
    """One line for each thing that a hook did, in the order in which it matters."""
    answer, hook = spoken.answer, spoken.hook
    if answer.failure is not None and answer.failure.timed_out:
        yield cancelled(name, hook, answer.failure.message)
    elif answer.failure is not None:
        yield HookRecord(HookEvent.ERROR, name, {**_who(hook), "error": answer.failure.message})
    if answer.effect is not None:
        decided: JsonObject = {"decision": answer.effect.name.lower(), "reason": answer.reason}
        yield HookRecord(HookEvent.PERMISSION_DECISION, name, {**_who(hook), **decided})
    if answer.context:
        yield HookRecord(
            HookEvent.ADDITIONAL_CONTEXT, name, {**_who(hook), "content": answer.context}
        )
    if answer.stopped is not None:
        yield HookRecord(
            HookEvent.STOPPED_CONTINUATION, name, {**_who(hook), "message": answer.stopped}
        )


def cancelled(name: str, hook: Hook, why: str) -> HookRecord:
    return HookRecord(HookEvent.CANCELLED, name, {**_who(hook), "reason": why})


def summary(name: str, spoken: Sequence[Spoken], seconds: float) -> HookRecord:
    stops = [each.answer.stopped for each in spoken if each.answer.stopped is not None]
    details: JsonObject = {
        "count": len(spoken),
        "infos": [f"{each.hook.action.label}: {_info(each)}" for each in spoken],
        "errors": [
            f"{each.hook.action.label}: {each.answer.failure.message}"
            for each in spoken
            if each.answer.failure is not None
        ],
        "prevented_continuation": bool(stops),
        "stop_reason": "; ".join(stops),
        "seconds": round(seconds, 6),
    }
    return HookRecord(HookEvent.SUMMARY, name, details)


def _who(hook: Hook) -> JsonObject:
    return {"command": hook.action.label, "file": str(hook.file)}


def _info(spoken: Spoken) -> str:
    answer = spoken.answer
    if answer.message:
        return answer.message
    if answer.effect is not None:
        return answer.effect.name.lower()
    return "failed" if answer.failure is not None else "ok"


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
            await outlets.status(escape_unprintable(hook.action.status))
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
    logger.log(
        level, "%s [%s]: %s", escape_unprintable(name), hook.action.label, escape_unprintable(what)
    )
