"""The hooks of this server, one method for each thing they are told of."""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import anyio

from mcp_dispatch.hooks.config import HookConfig, Matched
from mcp_dispatch.hooks.engine import Engine, Occasion
from mcp_dispatch.hooks.events import Event, hook_name
from mcp_dispatch.hooks.input import (
    Untellable,
    after_document,
    batch_document,
    before_document,
    denied_document,
    question_document,
    reply_document,
    request_document,
    session_document,
)
from mcp_dispatch.hooks.matcher import Fit
from mcp_dispatch.hooks.merge import (
    Spoken,
    afterword,
    batch_afterword,
    may_retry,
    reply_of_person,
    reply_to_question,
    review,
    session_contexts,
    verdict,
)
from mcp_dispatch.hooks.runners.command import CommandRunner
from mcp_dispatch.hooks.runners.http import HttpLimits, HttpRunner
from mcp_dispatch.hooks.runners.mcp_tool import NoUpstreams, UpstreamRunner, Upstreams
from mcp_dispatch.model.calls import Afterword, BatchedCall, CheckedCall, Executed, Review
from mcp_dispatch.model.decision import Effect, Tier, Vote
from mcp_dispatch.model.hook_context import Circumstances
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.text import escape_unprintable
from mcp_dispatch.processes.children import Children

logger = logging.getLogger(__name__)

SESSION_END_SECONDS: Final = 1.5
"""What all hooks of a session's end have together, unless one of them asks for more."""
LONGEST_SESSION_END: Final = 60.0
_SESSION_END_VARIABLE: Final = "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS"

Condition = Callable[[str, CheckedCall, Circumstances], Fit]
"""Whether the rule in an `if` speaks of the call."""


def _unsure(_: str, __: CheckedCall, ___: Circumstances) -> Fit:
    return Fit.UNSURE


@dataclass(frozen=True, slots=True)
class Reach:
    """What hooks may use of the rest of the server."""

    upstreams: Upstreams = field(default_factory=NoUpstreams)
    condition: Condition = _unsure
    http: HttpLimits = field(default_factory=HttpLimits)


class Hooks:
    """All matching hooks of an event run side by side, each to its end."""

    def __init__(
        self,
        config: HookConfig,
        children: Children,
        environ: Mapping[str, str],
        *,
        workspace: Path | None = None,
        reach: Reach | None = None,
    ) -> None:
        self._by_event = {event: config.only(event) for event in Event}
        self._children = children
        self._environ = environ
        self._reach = reach or Reach()
        self._engine = Engine(
            children,
            CommandRunner(children, environ, workspace),
            HttpRunner(environ, self._reach.http),
            UpstreamRunner(self._reach.upstreams),
        )

    @classmethod
    def none(cls) -> "Hooks":
        return cls(HookConfig(), Children(), {})

    def waits_for(self, event: Event) -> bool:
        """Whether any hook is there for the event."""
        return bool(self._by_event[event].hooks)

    # -- around one call

    async def before(
        self,
        checked: CheckedCall,
        circumstances: Circumstances,
        beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> Review:
        """PreToolUse. A call that hooks cannot be told of is denied: a guard would be blind.

        `beside` is done meanwhile, where there is any hook to wait for.
        """
        tool = checked.tool.rule_name
        matching = self._meant(Event.PRE_TOOL_USE, checked, circumstances)
        if not matching:
            return Review()
        try:
            document = before_document(checked, circumstances)
        except Untellable as error:
            origin = matching[0].hook.origin
            return Review(votes=(Vote(Tier.DENY, Effect.DENY, str(error), origin),))
        occasion = Occasion(Event.PRE_TOOL_USE, tool, document, circumstances)
        spoken: list[Spoken] = []
        async with anyio.create_task_group() as tasks:
            if beside is not None:
                tasks.start_soon(beside)
            spoken = await self._engine.hear(matching, occasion)
        return review(tool, spoken)

    async def after(self, executed: Executed, circumstances: Circumstances) -> Afterword:
        """PostToolUse, or PostToolUseFailure where the result is an error."""
        failed = executed.result.is_error
        event = Event.POST_TOOL_USE_FAILURE if failed else Event.POST_TOOL_USE
        if not self.waits_for(event):
            return Afterword()
        checked = executed.permitted.reviewed.checked
        spoken = await self._about_call(
            event, checked, circumstances, lambda: after_document(event, executed, circumstances)
        )
        return _replacing_only_upstreams(afterword(checked.tool.rule_name, spoken), executed)

    async def requested(self, checked: CheckedCall, circumstances: Circumstances) -> Review:
        """PermissionRequest: a question is about to be put. `Review()` where nobody answers it."""
        spoken = await self._about_call(
            Event.PERMISSION_REQUEST,
            checked,
            circumstances,
            lambda: request_document(checked, circumstances),
        )
        return verdict(checked.tool.rule_name, spoken)

    async def denied(self, checked: CheckedCall, reason: str, circumstances: Circumstances) -> bool:
        """PermissionDenied. Whether a hook says that the call may be made again."""
        spoken = await self._about_call(
            Event.PERMISSION_DENIED,
            checked,
            circumstances,
            lambda: denied_document(checked, reason, circumstances),
        )
        return may_retry(spoken)

    async def batch_over(
        self, calls: Sequence[BatchedCall], circumstances: Circumstances
    ) -> Afterword:
        """PostToolBatch: all calls of a batch have ended."""
        spoken = await self._about(
            Event.POST_TOOL_BATCH, "", circumstances, lambda: batch_document(calls, circumstances)
        )
        return batch_afterword(spoken)

    # -- around a session

    def begin_session(self, circumstances: Circumstances) -> anyio.Event:
        """SessionStart hooks begin; the event is set when they have ended. What they want the model
        to know goes with the session's first result. They go on where a call that waits for them
        is cancelled: the next one waits for the same."""
        begun = anyio.Event()
        if not self.waits_for(Event.SESSION_START):
            begun.set()
            return begun

        async def begin() -> None:
            try:
                for text in await self.session_started(circumstances):
                    circumstances.outlets.later(text)
            except Exception:  # it runs beside everything: its trouble is its own
                logger.exception("SessionStart hooks failed unexpectedly")
            finally:
                begun.set()

        self._children.beside(begin)
        return begun

    async def session_started(self, circumstances: Circumstances) -> tuple[str, ...]:
        """SessionStart. What its hooks want the model to know."""
        event, source = Event.SESSION_START, "startup"
        spoken = await self._about(
            event,
            source,
            circumstances,
            lambda: session_document(event, "source", source, circumstances),
        )
        return session_contexts(source, spoken)

    async def session_ended(self, circumstances: Circumstances) -> None:
        """SessionEnd. Nothing comes after it, so its hooks have little time."""
        event, reason = Event.SESSION_END, "other"
        matching = self._by_event[event].matching(event, reason)
        if not matching:
            return
        document = session_document(event, "reason", reason, circumstances)
        with anyio.move_on_after(self._session_end_seconds(matching)):
            await self._engine.hear(matching, Occasion(event, reason, document, circumstances))

    def _session_end_seconds(self, matching: Sequence[Matched]) -> float:
        stated = self._environ.get(_SESSION_END_VARIABLE, "")
        if stated.isascii() and stated.isdigit() and len(stated) < 9:
            return min(int(stated) / 1000, LONGEST_SESSION_END)
        asked = [each.hook.action.timeout for each in matching]
        longest = max((seconds for seconds in asked if seconds is not None), default=0.0)
        return min(max(SESSION_END_SECONDS, longest), LONGEST_SESSION_END)

    # -- around a question of an upstream's

    async def elicitation(
        self, server: str, params: JsonObject, circumstances: Circumstances
    ) -> JsonObject | None:
        """Elicitation: `server` asks `params` (of `elicitation/create`). The answer of a hook,
        `{"action": …, "content"?: …}`, which stands in place of asking; None to ask.

        The content is as the hook wrote it: whether it fits the question is for the server to say.
        """
        spoken = await self._about(
            Event.ELICITATION,
            server,
            circumstances,
            lambda: question_document(server, params, circumstances),
        )
        return reply_to_question(spoken)

    async def elicitation_result(
        self, server: str, params: JsonObject, answer: JsonObject, circumstances: Circumstances
    ) -> JsonObject:
        """ElicitationResult: what the server is told where the client has answered `answer`."""
        spoken = await self._about(
            Event.ELICITATION_RESULT,
            server,
            circumstances,
            lambda: reply_document(server, params, answer, circumstances),
        )
        return reply_of_person(answer, spoken)

    # -- who is meant

    async def _about_call(
        self,
        event: Event,
        checked: CheckedCall,
        circumstances: Circumstances,
        document: Callable[[], bytes],
    ) -> list[Spoken]:
        matching = self._meant(event, checked, circumstances)
        return await self._tell(event, checked.tool.rule_name, matching, circumstances, document)

    async def _about(
        self, event: Event, about: str, circumstances: Circumstances, document: Callable[[], bytes]
    ) -> list[Spoken]:
        matching = self._by_event[event].matching(event, about)
        return await self._tell(event, about, matching, circumstances, document)

    async def _tell(
        self,
        event: Event,
        about: str,
        matching: Sequence[Matched],
        circumstances: Circumstances,
        document: Callable[[], bytes],
    ) -> list[Spoken]:
        """What cannot be told is not: these events come where a call has been judged."""
        if not matching:
            return []
        try:
            occasion = Occasion(event, about, document(), circumstances)
        except Untellable as error:
            logger.error(
                "%s hooks do not run: %s", escape_unprintable(hook_name(event, about)), error
            )
            return []
        return await self._engine.hear(matching, occasion)

    def _meant(
        self, event: Event, checked: CheckedCall, circumstances: Circumstances
    ) -> tuple[Matched, ...]:
        """The hooks whose matcher fits and whose `if` speaks of the call, or may."""
        matching = self._by_event[event].matching(event, checked.tool.rule_name)
        judged = [self._under_condition(each, checked, circumstances) for each in matching]
        return tuple(each for each in judged if each is not None)

    def _under_condition(
        self, matched: Matched, checked: CheckedCall, circumstances: Circumstances
    ) -> Matched | None:
        rule = matched.hook.action.condition
        if rule is None:
            return matched
        fit = self._reach.condition(rule, checked, circumstances)
        if fit is Fit.NO:
            return None
        return matched if fit is Fit.YES else replace(matched, sure=False)


def _replacing_only_upstreams(said: Afterword, executed: Executed) -> Afterword:
    tool = executed.permitted.tool
    if said.output is None or (tool.server is not None and not executed.result.is_error):
        return said
    why = (
        "a failure stays what it is" if tool.server else "a built-in's output can only be added to"
    )
    logger.warning(
        "%s: updatedToolOutput has no effect: %s", escape_unprintable(tool.rule_name), why
    )
    return replace(said, output=None)
