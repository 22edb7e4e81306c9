"""What stands around the hooks: where their words go, and what they may use of the server."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from anyio import to_thread

from mcp_dispatch.hooks.hooks import Condition
from mcp_dispatch.hooks.matcher import Fit
from mcp_dispatch.hooks.runners.mcp_tool import CallRefused
from mcp_dispatch.journal.records import hook_entry
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.calls import CheckedCall
from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote
from mcp_dispatch.model.hook_context import Circumstances, HookRecord
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.names import rule_name
from mcp_dispatch.model.text import capped
from mcp_dispatch.model.tools import (
    CallContext,
    FileSeen,
    Progress,
    Tool,
    ToolResult,
    no_progress,
)
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.policy.commands.pattern import Match
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.rules.conditions import Conditions
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.registry.registry import Pool
from mcp_dispatch.results.markers import persisted
from mcp_dispatch.results.store import CannotKeep, ResultStore

_FITS: Final = {Match.YES: Fit.YES, Match.MAYBE: Fit.UNSURE, Match.NO: Fit.NO}
_STEP: Final = 1e-6


class Rising:
    """Progress of one call, with words of ours in between: its number never falls."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._last: float = 0
        self._spoke = False

    async def tell(self, params: JsonObject) -> None:
        """What the tool says, as it says it, unless words of ours have gone before."""
        number = params.get("progress")
        if isinstance(number, int | float):
            if self._spoke and number <= self._last:
                number = self._last + _STEP
                params = {**params, "progress": number}
            self._last = number
        await self._progress(params)

    async def say(self, message: str) -> None:
        self._last += _STEP
        self._spoke = True
        await self._progress({"progress": self._last, "message": message})


@dataclass(frozen=True, slots=True)
class ScopeOutlets:
    """What hooks say reaches the client, the scope and the journal."""

    scope: Scope
    results: ResultStore
    journal: Journal
    call: str | None = None
    progress: Rising | None = None

    async def status(self, message: str) -> None:
        if self.progress is not None:
            await self.progress.say(message)

    def later(self, text: str) -> None:
        self.scope.tell_later(text)

    async def keep(self, text: str) -> str:
        try:
            kept = await to_thread.run_sync(self.results.keep, text)
        except CannotKeep:
            return capped(text)
        self.scope.deliver(str(kept.path))
        return persisted(text, kept)

    async def record(self, record: HookRecord) -> None:
        entry = hook_entry(record, scope=self.scope.id, call=self.call, now=time.time())
        await self.journal.record(entry)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Makes the circumstances of calls and of sessions."""

    results: ResultStore
    journal: Journal

    def of_call(
        self, scope: Scope, policy: Policy, call: str, progress: Progress
    ) -> tuple[Circumstances, Progress]:
        """The circumstances, and how the tool tells its own progress beside the hooks'."""
        rising = None if progress is no_progress else Rising(progress)
        outlets = ScopeOutlets(scope, self.results, self.journal, call, rising)
        return self._with(scope, policy, outlets), rising.tell if rising else no_progress

    def of_session(self, scope: Scope, policy: Policy) -> Circumstances:
        return self._with(scope, policy, ScopeOutlets(scope, self.results, self.journal))

    def _with(self, scope: Scope, policy: Policy, outlets: ScopeOutlets) -> Circumstances:
        cwd = scope.cwd or Path.cwd()
        return Circumstances(scope.id, self.journal.path, cwd, policy.mode.value, outlets)


def condition_by(conditions: Conditions) -> Condition:
    """Judges the rule in an `if`."""

    def fits(rule: str, checked: CheckedCall, circumstances: Circumstances) -> Fit:
        tool = checked.tool
        subject = Subject(
            tool.rule_name,
            tool.name,
            tool.server,
            checked.arguments,
            checked.valid.arguments,
            circumstances.cwd,
        )
        return _FITS[conditions.match(rule, subject)]

    return fits


@dataclass(frozen=True, slots=True)
class _HookScope:
    """A hook is nobody's client: it has seen nothing and was given nothing."""

    id: str
    cwd: Path | None

    def seen(self, path: str) -> FileSeen | None:
        return None

    def delivered(self, path: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class UpstreamsForHooks:
    """Calls of `mcp_tool` hooks: straight to the server, with no slot and no hooks around them.

    Whoever wrote the hook wants the call, so nobody is asked only because no rule speaks of it;
    a deny stands, and an ask, which nobody is there to answer, does too.
    """

    pool: Callable[[], Pool]
    policy: Callable[[], Policy]

    async def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject,
        origin: Origin,
        circumstances: Circumstances,
    ) -> JsonObject:
        found = self.pool().find(rule_name(server, tool))
        if found is None or found.server != server:
            raise CallRefused(f"the server {server!r} offers no tool {tool!r} at the moment")
        if problems := found.validator.problems(arguments):
            raise CallRefused(f"its input does not fit the tool: {'; '.join(problems)}")
        self._judge(found, arguments, origin, circumstances)
        scope = _HookScope(circumstances.session_id, circumstances.cwd)
        answer = await found.run(arguments, CallContext("hook", scope))
        if not isinstance(answer, ToolResult):
            raise CallRefused("the tool answered with a protocol error or a question")
        return answer.wire

    def _judge(
        self, tool: Tool, arguments: JsonObject, origin: Origin, circumstances: Circumstances
    ) -> None:
        subject = Subject(
            tool.rule_name, tool.name, tool.server, arguments, arguments, circumstances.cwd
        )
        wanted = Vote(Tier.ALLOW, Effect.ALLOW, "a hook is configured to call it", origin)
        decision = self.policy().judge(subject, hook_votes=[wanted])
        if decision.effect is not Effect.ALLOW:
            said = "denied" if decision.effect is Effect.DENY else "asked about"
            by = decision.by
            raise CallRefused(f"{tool.rule_name} is {said}: {by.reason} ({by.origin})")
