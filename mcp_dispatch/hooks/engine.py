"""Runs all matching hooks of one event concurrently, and logs and records their answers."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

import anyio

from mcp_dispatch.hooks.actions import HookCommand, HttpPost, UpstreamCall
from mcp_dispatch.hooks.config import Hook, MatchedHook
from mcp_dispatch.hooks.events import HookEventName, format_hook_name
from mcp_dispatch.hooks.merge import HookReply, build_reply, format_context
from mcp_dispatch.hooks.output import HookAnswer, HookFailure, HookOutput, parse_answer
from mcp_dispatch.hooks.runners.command import CommandRunner
from mcp_dispatch.hooks.runners.http import HttpRunner
from mcp_dispatch.hooks.runners.mcp_tool import UpstreamRunner
from mcp_dispatch.model.hook_context import HookContext, HookEvent, HookRecord
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.text import MAX_TEXT_CHARS, escape_unprintable, extract_first_line
from mcp_dispatch.processes.children import ProcessGroup


def build_records(name: str, reply: HookReply) -> Iterator[HookRecord]:
    """Yield a journal record for each part of the answer: failure, decision, context, stop."""
    answer, hook = reply.answer, reply.hook
    if answer.failure is not None and answer.failure.timed_out:
        yield build_cancelled_record(name, hook, answer.failure.message)
    elif answer.failure is not None:
        yield HookRecord(
            HookEvent.ERROR, name, {**_describe_hook(hook), "error": answer.failure.message}
        )
    if answer.effect is not None:
        decision: JsonObject = {"decision": answer.effect.name.lower(), "reason": answer.reason}
        yield HookRecord(HookEvent.PERMISSION_DECISION, name, {**_describe_hook(hook), **decision})
    if answer.context:
        yield HookRecord(
            HookEvent.ADDITIONAL_CONTEXT, name, {**_describe_hook(hook), "content": answer.context}
        )
    if answer.changes.stop_reason is not None:
        yield HookRecord(
            HookEvent.STOPPED_CONTINUATION,
            name,
            {**_describe_hook(hook), "message": answer.changes.stop_reason},
        )


def build_cancelled_record(name: str, hook: Hook, reason: str) -> HookRecord:
    return HookRecord(HookEvent.CANCELLED, name, {**_describe_hook(hook), "reason": reason})


def build_summary_record(name: str, replies: Sequence[HookReply], seconds: float) -> HookRecord:
    stops = [
        each.answer.changes.stop_reason
        for each in replies
        if each.answer.changes.stop_reason is not None
    ]
    details: JsonObject = {
        "count": len(replies),
        "infos": [f"{each.hook.action.label}: {_summarize_reply(each)}" for each in replies],
        "errors": [
            f"{each.hook.action.label}: {each.answer.failure.message}"
            for each in replies
            if each.answer.failure is not None
        ],
        "prevented_continuation": bool(stops),
        "stop_reason": "; ".join(stops),
        "seconds": round(seconds, 6),
    }
    return HookRecord(HookEvent.SUMMARY, name, details)


def _describe_hook(hook: Hook) -> JsonObject:
    return {"command": hook.action.label, "file": str(hook.file)}


def _summarize_reply(reply: HookReply) -> str:
    answer = reply.answer
    if answer.message:
        return answer.message
    if answer.effect is not None:
        return answer.effect.name.lower()
    return "failed" if answer.failure is not None else "ok"


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HookInvocation:
    """One event: its subject (a tool, a server or a session source) and the input document."""

    event: HookEventName
    subject: str
    document: bytes
    context: HookContext

    @property
    def name(self) -> str:
        return format_hook_name(self.event, self.subject)


class HookEngine:
    """Runs hooks. Background hooks run as tasks of `processes`."""

    def __init__(
        self,
        processes: ProcessGroup,
        commands: CommandRunner,
        posts: HttpRunner,
        upstreams: UpstreamRunner,
    ) -> None:
        self._processes = processes
        self._commands = commands
        self._posts = posts
        self._upstreams = upstreams

    async def run_hooks(
        self, matching: Sequence[MatchedHook], invocation: HookInvocation
    ) -> list[HookReply]:
        """Return the answers in configuration order, whatever order the hooks finish in.

        Background hooks are started and not waited for, so their answers are not included.
        """
        replies_by_position: dict[int, HookReply] = {}
        started = time.monotonic()

        async def run_hook(position: int, matched: MatchedHook) -> None:
            replies_by_position[position] = await self._run_hook(matched, invocation)

        async with anyio.create_task_group() as tasks:
            for position, matched in enumerate(matching):
                # After SessionEnd nothing is left that could wait for a background hook.
                if (
                    matched.hook.action.background
                    and invocation.event is not HookEventName.SESSION_END
                ):
                    self._processes.spawn_task(
                        partial(self._run_in_background, matched, invocation)
                    )
                else:
                    tasks.start_soon(run_hook, position, matched)
        replies = [replies_by_position[position] for position in sorted(replies_by_position)]
        if replies:
            seconds = time.monotonic() - started
            await invocation.context.sink.record(
                build_summary_record(invocation.name, replies, seconds)
            )
        return replies

    async def _run_hook(self, matched: MatchedHook, invocation: HookInvocation) -> HookReply:
        hook, sink = matched.hook, invocation.context.sink
        if hook.action.status:
            await sink.show_status(escape_unprintable(hook.action.status))
        try:
            answer = await self._collect_answer(hook, invocation)
        except anyio.get_cancelled_exc_class():
            await sink.record(
                build_cancelled_record(invocation.name, hook, "the call was cancelled")
            )
            raise
        if len(answer.context) > MAX_TEXT_CHARS:
            answer = replace(answer, context=await sink.store_text(answer.context))
        reply = build_reply(matched, answer, invocation.subject)
        _log_reply(invocation.name, reply)
        for record in build_records(invocation.name, reply):
            await sink.record(record)
        return reply

    async def _run_in_background(self, matched: MatchedHook, invocation: HookInvocation) -> None:
        """Run the hook and add its context for the model to the next result."""
        try:
            reply = await self._run_hook(matched, invocation)
        except Exception:  # a background task: an error here must not end other tasks
            logger.exception("hook %s failed unexpectedly", matched.hook.action.label)
            return
        if text := format_context(invocation.subject, reply):
            invocation.context.sink.add_note(text)

    async def _collect_answer(self, hook: Hook, invocation: HookInvocation) -> HookAnswer:
        output = await self._execute_action(hook, invocation)
        if isinstance(output, HookFailure):
            return HookAnswer(failure=output)
        if output.stderr:
            _log_message(
                logging.DEBUG,
                invocation.name,
                hook,
                f"stderr: {extract_first_line(output.stderr)}",
            )
        return parse_answer(hook.event, output)

    async def _execute_action(
        self, hook: Hook, invocation: HookInvocation
    ) -> HookOutput | HookFailure:
        document, context = invocation.document, invocation.context
        match hook.action:
            case HookCommand() as command:
                return await self._commands.run(command, document, context)
            case HttpPost() as post:
                return await self._posts.run(post, document)
            case UpstreamCall() as call:
                return await self._upstreams.run(call, document, hook.origin, context)
            case _:
                assert_never(hook.action)


def _log_reply(name: str, reply: HookReply) -> None:
    answer = reply.answer
    if answer.failure is not None:
        _log_message(logging.WARNING, name, reply.hook, f"hook error: {answer.failure.message}")
    for note in answer.notes:
        _log_message(logging.WARNING, name, reply.hook, note)
    if answer.message:
        _log_message(logging.INFO, name, reply.hook, f"says: {answer.message}")


def _log_message(level: int, name: str, hook: Hook, message: str) -> None:
    logger.log(
        level,
        "%s [%s]: %s",
        escape_unprintable(name),
        hook.action.label,
        escape_unprintable(message),
    )
