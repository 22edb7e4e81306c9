"""What stands around the hooks: where their words go, and what they may use of the server."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anyio import to_thread

from mcp_dispatch.hooks.hooks import ConditionMatcher
from mcp_dispatch.hooks.matcher import MatchResult
from mcp_dispatch.hooks.runners.mcp_tool import CallRefused
from mcp_dispatch.journal.records import build_hook_record
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.calls import CheckedCall
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
    ignore_progress,
)
from mcp_dispatch.pipeline.scope import Scope
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
    """Progress of one call, with words of ours in between: its number never falls."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._last: float = 0
        self._sent_message = False

    async def forward(self, params: JsonObject) -> None:
        """What the tool says, as it says it, unless words of ours have gone before."""
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
    """What hooks say reaches the client, the scope and the journal."""

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
            kept = await to_thread.run_sync(self.results.save, text)
        except CannotStore:
            return truncate_with_count(text)
        self.scope.mark_delivered(str(kept.path))
        return render_persisted_text(text, kept)

    async def record(self, record: HookRecord) -> None:
        entry = build_hook_record(record, scope=self.scope.id, call=self.call_id, now=time.time())
        await self.journal.record(entry)


@dataclass(frozen=True, slots=True)
class HookContextFactory:
    """Makes the circumstances of calls and of sessions."""

    results: ResultStore
    journal: Journal

    def create_for_call(
        self, scope: Scope, policy: Policy, call_id: str, progress: Progress
    ) -> tuple[HookContext, Progress]:
        """The circumstances, and how the tool tells its own progress beside the hooks'."""
        rising = None if progress is ignore_progress else MonotonicProgress(progress)
        outlets = ScopeHookSink(scope, self.results, self.journal, call_id, rising)
        return self._create(scope, policy, outlets), rising.forward if rising else ignore_progress

    def create_for_session(self, scope: Scope, policy: Policy) -> HookContext:
        return self._create(scope, policy, ScopeHookSink(scope, self.results, self.journal))

    def _create(self, scope: Scope, policy: Policy, sink: ScopeHookSink) -> HookContext:
        cwd = scope.cwd or Path.cwd()
        return HookContext(scope.id, self.journal.path, cwd, policy.mode.value, sink)


def build_condition(conditions: HookConditions) -> ConditionMatcher:
    """Judges the rule in an `if`."""

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
    """A hook is nobody's client: it has seen nothing and was given nothing."""

    id: str
    cwd: Path | None

    def find_seen_file(self, path: str) -> FileSeen | None:
        return None

    def is_delivered(self, path: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class HookToolCaller:
    """Calls of `mcp_tool` hooks: straight to the server, with no slot and no hooks around them.

    Whoever wrote the hook wants the call, so nobody is asked only because no rule speaks of it;
    a deny stands, and an ask, which nobody is there to answer, does too.
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
            said = "denied" if decision.effect is Effect.DENY else "asked about"
            by = decision.by
            raise CallRefused(f"{tool.rule_name} is {said}: {by.reason} ({by.origin})")
