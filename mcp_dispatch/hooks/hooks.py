"""The configured hooks, with one method per event."""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import anyio

from mcp_dispatch.hooks.config import HookConfig, MatchedHook
from mcp_dispatch.hooks.engine import HookEngine, HookInvocation
from mcp_dispatch.hooks.events import HookEventName, format_hook_name
from mcp_dispatch.hooks.input import (
    HookInputError,
    build_elicitation_input,
    build_elicitation_result_input,
    build_permission_denied_input,
    build_permission_request_input,
    build_post_tool_batch_input,
    build_post_tool_use_input,
    build_pre_tool_use_input,
    build_session_input,
)
from mcp_dispatch.hooks.matcher import MatchResult
from mcp_dispatch.hooks.merge import (
    HookReply,
    collect_session_contexts,
    may_retry,
    merge_elicitation,
    merge_elicitation_result,
    merge_permission_request,
    merge_post_tool_batch,
    merge_post_tool_use,
    merge_pre_tool_use,
)
from mcp_dispatch.hooks.runners.command import CommandRunner
from mcp_dispatch.hooks.runners.http import HttpLimits, HttpRunner
from mcp_dispatch.hooks.runners.mcp_tool import NoUpstreams, UpstreamCaller, UpstreamRunner
from mcp_dispatch.model.calls import (
    BatchedCall,
    CheckedCall,
    Executed,
    PostHookResult,
    PreHookResult,
)
from mcp_dispatch.model.decision import Effect, Tier, Vote
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.text import escape_unprintable
from mcp_dispatch.processes.children import ProcessGroup

logger = logging.getLogger(__name__)

DEFAULT_SESSION_END_SECONDS: Final = 1.5
"""The time for all SessionEnd hooks together, unless one of them sets a longer timeout."""
MAX_SESSION_END_SECONDS: Final = 60.0
_SESSION_END_VARIABLE: Final = "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS"

ConditionMatcher = Callable[[str, CheckedCall, HookContext], MatchResult]
"""Decides whether the rule in an `if` matches the call."""


def _default_condition(_: str, __: CheckedCall, ___: HookContext) -> MatchResult:
    return MatchResult.UNSURE


@dataclass(frozen=True, slots=True)
class HookServices:
    """Parts of the server that hooks use."""

    upstreams: UpstreamCaller = field(default_factory=NoUpstreams)
    match_condition: ConditionMatcher = _default_condition
    http: HttpLimits = field(default_factory=HttpLimits)


class Hooks:
    """Runs all matching hooks of an event concurrently, each to its end.

    `events` holds the events for which at least one hook is configured.
    """

    def __init__(
        self,
        config: HookConfig,
        processes: ProcessGroup,
        environ: Mapping[str, str],
        *,
        workspace: Path | None = None,
        services: HookServices | None = None,
    ) -> None:
        self.events = frozenset(hook.event for hook in config.hooks)
        self._by_event = {event: config.filter_by_event(event) for event in HookEventName}
        self._processes = processes
        self._environ = environ
        self._services = services or HookServices()
        self._engine = HookEngine(
            processes,
            CommandRunner(processes, environ, workspace),
            HttpRunner(environ, self._services.http),
            UpstreamRunner(self._services.upstreams),
        )

    @classmethod
    def create_empty(cls) -> "Hooks":
        return cls(HookConfig(), ProcessGroup(), {})

    # -- around one call

    async def run_pre_tool_use(
        self,
        checked: CheckedCall,
        context: HookContext,
        concurrent_task: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> PreHookResult:
        """Run PreToolUse hooks. A call that cannot be written as JSON is denied, because no hook
        could inspect it.

        `concurrent_task` runs at the same time, and only if there are hooks to wait for.
        """
        tool = checked.tool.rule_name
        matching = self._match_call(HookEventName.PRE_TOOL_USE, checked, context)
        if not matching:
            return PreHookResult()
        try:
            document = build_pre_tool_use_input(checked, context)
        except HookInputError as error:
            origin = matching[0].hook.origin
            return PreHookResult(votes=(Vote(Tier.DENY, Effect.DENY, str(error), origin),))
        invocation = HookInvocation(HookEventName.PRE_TOOL_USE, tool, document, context)
        replies: list[HookReply] = []
        async with anyio.create_task_group() as tasks:
            if concurrent_task is not None:
                tasks.start_soon(concurrent_task)
            replies = await self._engine.run_hooks(matching, invocation)
        return merge_pre_tool_use(tool, replies)

    async def run_post_tool_use(self, executed: Executed, context: HookContext) -> PostHookResult:
        """Run PostToolUse hooks, or PostToolUseFailure hooks if the result is an error."""
        failed = executed.result.is_error
        event = HookEventName.POST_TOOL_USE_FAILURE if failed else HookEventName.POST_TOOL_USE
        checked = executed.permitted.reviewed.checked
        replies = await self._run_for_call(
            event, checked, context, lambda: build_post_tool_use_input(event, executed, context)
        )
        return _drop_ineffective_output(
            merge_post_tool_use(checked.tool.rule_name, replies), executed
        )

    async def run_permission_request(
        self, checked: CheckedCall, context: HookContext
    ) -> PreHookResult:
        """Run PermissionRequest hooks before a person is asked. The result is empty if no hook
        answers."""
        replies = await self._run_for_call(
            HookEventName.PERMISSION_REQUEST,
            checked,
            context,
            lambda: build_permission_request_input(checked, context),
        )
        return merge_permission_request(checked.tool.rule_name, replies)

    async def run_permission_denied(
        self, checked: CheckedCall, reason: str, context: HookContext
    ) -> bool:
        """Run PermissionDenied hooks. Return whether a hook lets the model repeat the call."""
        replies = await self._run_for_call(
            HookEventName.PERMISSION_DENIED,
            checked,
            context,
            lambda: build_permission_denied_input(checked, reason, context),
        )
        return may_retry(replies)

    async def run_post_tool_batch(
        self, calls: Sequence[BatchedCall], context: HookContext
    ) -> PostHookResult:
        """Run PostToolBatch hooks, after all calls of a batch have ended."""
        replies = await self._run_for_subject(
            HookEventName.POST_TOOL_BATCH,
            "",
            context,
            lambda: build_post_tool_batch_input(calls, context),
        )
        return merge_post_tool_batch(replies)

    # -- around a session

    def begin_session(self, context: HookContext) -> anyio.Event:
        """Start SessionStart hooks and return an event that is set when they have ended.

        Their context for the model is added to the session's first result. The hooks continue if a
        call that waits for them is cancelled; the next call waits for the same event.
        """
        finished = anyio.Event()
        if HookEventName.SESSION_START not in self.events:
            finished.set()
            return finished

        async def begin() -> None:
            try:
                for text in await self.run_session_start(context):
                    context.sink.add_note(text)
            except Exception:  # a background task: an error here must not end other tasks
                logger.exception("SessionStart hooks failed unexpectedly")
            finally:
                finished.set()

        self._processes.spawn_task(begin)
        return finished

    async def run_session_start(self, context: HookContext) -> tuple[str, ...]:
        """Run SessionStart hooks and return their context for the model."""
        event, source = HookEventName.SESSION_START, "startup"
        replies = await self._run_for_subject(
            event,
            source,
            context,
            lambda: build_session_input(event, "source", source, context),
        )
        return collect_session_contexts(source, replies)

    async def run_session_end(self, context: HookContext) -> None:
        """Run SessionEnd hooks, bounded by a short timeout because the server is about to exit."""
        event, reason = HookEventName.SESSION_END, "other"
        matching = self._by_event[event].find_matching(event, reason)
        if not matching:
            return
        document = build_session_input(event, "reason", reason, context)
        with anyio.move_on_after(self._compute_session_end_timeout(matching)):
            await self._engine.run_hooks(matching, HookInvocation(event, reason, document, context))

    def _compute_session_end_timeout(self, matching: Sequence[MatchedHook]) -> float:
        variable = self._environ.get(_SESSION_END_VARIABLE, "")
        if variable.isascii() and variable.isdigit() and len(variable) < 9:
            return min(int(variable) / 1000, MAX_SESSION_END_SECONDS)
        timeouts = [each.hook.action.timeout for each in matching]
        longest = max((seconds for seconds in timeouts if seconds is not None), default=0.0)
        return min(max(DEFAULT_SESSION_END_SECONDS, longest), MAX_SESSION_END_SECONDS)

    # -- around an elicitation of an upstream server

    async def run_elicitation(
        self, server: str, params: JsonObject, context: HookContext
    ) -> JsonObject | None:
        """Run Elicitation hooks for the `params` of `elicitation/create`. Return a hook's answer,
        `{"action": …, "content"?: …}`, or None if the client is to be asked.

        The content is not validated against the requested schema; the upstream server does that.
        """
        replies = await self._run_for_subject(
            HookEventName.ELICITATION,
            server,
            context,
            lambda: build_elicitation_input(server, params, context),
        )
        return merge_elicitation(replies)

    async def run_elicitation_result(
        self, server: str, params: JsonObject, answer: JsonObject, context: HookContext
    ) -> JsonObject:
        """Run ElicitationResult hooks and return the answer to send to the server."""
        replies = await self._run_for_subject(
            HookEventName.ELICITATION_RESULT,
            server,
            context,
            lambda: build_elicitation_result_input(server, params, answer, context),
        )
        return merge_elicitation_result(answer, replies)

    # -- matching and running

    async def _run_for_call(
        self,
        event: HookEventName,
        checked: CheckedCall,
        context: HookContext,
        build_document: Callable[[], bytes],
    ) -> list[HookReply]:
        matching = self._match_call(event, checked, context)
        return await self._run_matching(
            event, checked.tool.rule_name, matching, context, build_document
        )

    async def _run_for_subject(
        self,
        event: HookEventName,
        subject: str,
        context: HookContext,
        build_document: Callable[[], bytes],
    ) -> list[HookReply]:
        matching = self._by_event[event].find_matching(event, subject)
        return await self._run_matching(event, subject, matching, context, build_document)

    async def _run_matching(
        self,
        event: HookEventName,
        subject: str,
        matching: Sequence[MatchedHook],
        context: HookContext,
        build_document: Callable[[], bytes],
    ) -> list[HookReply]:
        """Run the hooks. If the input cannot be written as JSON they do not run and an error is logged:
        by the time of these events the call is already decided."""
        if not matching:
            return []
        try:
            invocation = HookInvocation(event, subject, build_document(), context)
        except HookInputError as error:
            logger.error(
                "%s hooks do not run: %s",
                escape_unprintable(format_hook_name(event, subject)),
                error,
            )
            return []
        return await self._engine.run_hooks(matching, invocation)

    def _match_call(
        self, event: HookEventName, checked: CheckedCall, context: HookContext
    ) -> tuple[MatchedHook, ...]:
        """Return the hooks whose matcher accepts the tool and whose `if` matches the call or may match."""
        matching = self._by_event[event].find_matching(event, checked.tool.rule_name)
        candidates = [self._apply_condition(each, checked, context) for each in matching]
        return tuple(each for each in candidates if each is not None)

    def _apply_condition(
        self, matched: MatchedHook, checked: CheckedCall, context: HookContext
    ) -> MatchedHook | None:
        rule = matched.hook.action.condition
        if rule is None:
            return matched
        match_result = self._services.match_condition(rule, checked, context)
        if match_result is MatchResult.NO:
            return None
        return matched if match_result is MatchResult.YES else replace(matched, sure=False)


def _drop_ineffective_output(result: PostHookResult, executed: Executed) -> PostHookResult:
    tool = executed.permitted.tool
    if result.output is None or (tool.server is not None and not executed.result.is_error):
        return result
    why = (
        "a failure stays what it is" if tool.server else "a built-in's output can only be added to"
    )
    logger.warning(
        "%s: updatedToolOutput has no effect: %s", escape_unprintable(tool.rule_name), why
    )
    return replace(result, output=None)
