"""What hooks use of the server: sessions, the sink for their output, and calls of tools."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anyio import to_thread

from mcp_dispatch.concurrency.admission import Slot
from mcp_dispatch.hooks.hooks import ConditionMatcher
from mcp_dispatch.hooks.matcher import MatchResult
from mcp_dispatch.hooks.runners.mcp_tool import CallRefused
from mcp_dispatch.journal.records import build_hook_record
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.calls import CheckedCall
from mcp_dispatch.model.client import ClientBridge
from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote
from mcp_dispatch.model.hook_context import HookContext, HookRecord
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import build_rule_name
from mcp_dispatch.model.text import truncate_with_count
from mcp_dispatch.model.tools import (
    CallContext,
    FileSeen,
    Progress,
    Tool,
    ToolResult,
)
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services
from mcp_dispatch.policy.commands.pattern import RuleMatch
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.rules.conditions import HookConditions
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.registry.registry import ToolRegistry
from mcp_dispatch.results.markers import render_persisted_text
from mcp_dispatch.results.store import CannotStore, ResultStore

_MATCH_RESULTS: Final = {
    RuleMatch.YES: MatchResult.YES,
    RuleMatch.MAYBE: MatchResult.UNSURE,
    RuleMatch.NO: MatchResult.NO,
}
_PROGRESS_STEP: Final = 1e-6


class MonotonicProgress:
    """Sends the progress of a tool and status messages of hooks with numbers that never decrease."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._last: float = 0
        self._sent_message = False

    async def forward(self, params: JsonObject) -> None:
        """Send the tool's progress; raise its number only if a status message came before."""
        number = params.get("progress")
        if isinstance(number, int | float):
            if self._sent_message and number <= self._last:
                number = self._last + _PROGRESS_STEP
                params = {**params, "progress": number}
            self._last = number
        await self._progress(params)

    async def send_message(self, message: str) -> None:
        self._last += _PROGRESS_STEP
        self._sent_message = True
        await self._progress({"progress": self._last, "message": message})


@dataclass(frozen=True, slots=True)
class ScopeHookSink:
    """Passes the output of hooks to the client, the scope and the journal."""

    scope: Scope
    results: ResultStore
    journal: Journal
    call_id: str | None = None
    progress: MonotonicProgress | None = None

    async def show_status(self, message: str) -> None:
        if self.progress is not None:
            await self.progress.send_message(message)

    def add_note(self, text: str) -> None:
        self.scope.add_note(text)

    async def store_text(self, text: str) -> str:
        try:
            stored = await to_thread.run_sync(self.results.save, text)
        except CannotStore:
            return truncate_with_count(text)
        self.scope.mark_delivered(str(stored.path))
        return render_persisted_text(text, stored)

    async def record(self, record: HookRecord) -> None:
        entry = build_hook_record(record, scope=self.scope.id, call=self.call_id, now=time.time())
        await self.journal.record(entry)


def create_session_context(services: Services, scope: Scope) -> HookContext:
    """Return the context of hooks that run outside of a call."""
    sink = ScopeHookSink(scope, services.results, services.journal)
    mode = services.get_snapshot().policy.mode
    return scope.create_hook_context(services.journal.path, mode.value, sink)


async def begin_session(services: Services, scope: Scope) -> None:
    """Start the SessionStart hooks at the first call of the scope, and wait until they end."""
    if scope.session_started is None:
        context = create_session_context(services, scope)
        scope.session_started = services.get_snapshot().hooks.begin_session(context)
    if not scope.session_started.is_set():
        await scope.session_started.wait()


async def end_session(services: Services, scope: Scope) -> None:
    """Run the SessionEnd hooks, if the scope has ever had a call."""
    if scope.session_started is not None:
        context = create_session_context(services, scope)
        await services.get_snapshot().hooks.run_session_end(context)


@dataclass(frozen=True, slots=True)
class HookClientBridge(ClientBridge):
    """Lets Elicitation hooks answer in place of the client, and ElicitationResult hooks review its
    answers. `slot` is released while the client is asked; None for a request without one."""

    scope: Scope
    services: Services
    slot: Slot | None = None

    async def answer_by_hook(self, server: str, params: JsonObject) -> JsonObject | None:
        context = create_session_context(self.services, self.scope)
        return await self.services.get_snapshot().hooks.run_elicitation(server, params, context)

    async def review_answer(
        self, server: str, params: JsonObject, answer: JsonObject
    ) -> JsonObject:
        hooks = self.services.get_snapshot().hooks
        context = create_session_context(self.services, self.scope)
        return await hooks.run_elicitation_result(server, params, answer, context)

    def release_slot(self) -> None:
        if self.slot is not None:
            self.slot.release()


def build_condition(conditions: HookConditions) -> ConditionMatcher:
    """Return the function that matches the rule in the `if` of a hook."""

    def match_condition(rule: str, checked: CheckedCall, context: HookContext) -> MatchResult:
        tool = checked.tool
        subject = Subject(
            tool.rule_name,
            tool.name,
            tool.server,
            checked.arguments,
            checked.valid.arguments,
            context.cwd,
        )
        return _MATCH_RESULTS[conditions.match(rule, subject)]

    return match_condition


@dataclass(frozen=True, slots=True)
class _HookScope:
    """The scope of a call that a hook makes: no files were read in it and none delivered."""

    id: str
    cwd: Path | None

    def find_seen_file(self, path: str) -> FileSeen | None:
        return None

    def is_delivered(self, path: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class HookToolCaller:
    """Calls tools for `mcp_tool` hooks: directly, without a slot and without hooks.

    The configured hook counts as an allow vote, so a call that no rule covers runs without a
    question. A deny rule refuses the call, and so does an ask rule, because nobody can answer.
    """

    get_registry: Callable[[], ToolRegistry]
    get_policy: Callable[[], Policy]

    async def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject,
        origin: Origin,
        context: HookContext,
    ) -> JsonObject:
        found = self.get_registry().find(build_rule_name(server, tool))
        if found is None or found.server != server:
            raise CallRefused(f"the server {server!r} offers no tool {tool!r} at the moment")
        if problems := found.validator.find_problems(arguments):
            raise CallRefused(f"its input does not fit the tool: {'; '.join(problems)}")
        self._check_policy(found, arguments, origin, context)
        scope = _HookScope(context.session_id, context.cwd)
        answer = await found.run(arguments, CallContext("hook", scope))
        if not isinstance(answer, ToolResult):
            raise CallRefused("the tool answered with a protocol error or a question")
        return answer.wire

    def _check_policy(
        self, tool: Tool, arguments: JsonObject, origin: Origin, context: HookContext
    ) -> None:
        subject = Subject(tool.rule_name, tool.name, tool.server, arguments, arguments, context.cwd)
        wanted = Vote(Tier.ALLOW, Effect.ALLOW, "a hook is configured to call it", origin)
        decision = self.get_policy().evaluate(subject, hook_votes=[wanted])
        if decision.effect is not Effect.ALLOW:
            verdict = "denied" if decision.effect is Effect.DENY else "asked about"
            by = decision.by
            raise CallRefused(f"{tool.rule_name} is {verdict}: {by.reason} ({by.origin})")
