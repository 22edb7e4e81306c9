"""What one scope owns: whoever shares a queue, files read, a working directory and open asks."""

import secrets
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakKeyDictionary

import anyio

from mcp_dispatch.concurrency.admission import Admission
from mcp_dispatch.model.calls import AskedContext, ToolCall
from mcp_dispatch.model.json import Json, to_canonical_json
from mcp_dispatch.model.tools import (
    ContextChange,
    DirectoryChanged,
    FileDelivered,
    FileRead,
    FileSeen,
    Tool,
    ToolsActivated,
    hash_definition,
)
from mcp_dispatch.pipeline.batch import Batch, BatchSettings, BatchWindow
from mcp_dispatch.pipeline.pending import PendingRequests
from mcp_dispatch.results.limits import BatchBudget
from mcp_dispatch.settings.settings import RuleText

QUESTION_SECONDS = 600.0
"""How long a question that was handed to the client stays answerable."""

MAX_PENDING_QUESTIONS = 1000
MAX_NOTES = 50


@dataclass(frozen=True, slots=True)
class _PendingQuestion:
    call: ToolCall
    context: AskedContext
    expires_at: float


class PendingQuestions:
    """Questions that left with a `requestState`. Each state works once, for the same call only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pending: dict[str, _PendingQuestion] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, call: ToolCall, context: AskedContext) -> str:
        self._evict()
        state = secrets.token_urlsafe(24)
        self._pending[state] = _PendingQuestion(call, context, self._clock() + QUESTION_SECONDS)
        return state

    def pop(self, state: str, name: str, arguments: Json) -> AskedContext | None:
        """What the call that asked had been told; None where nothing (any more) waits for this answer."""
        parked = self._pending.pop(state, None)
        if parked is None or parked.expires_at < self._clock():
            return None
        call = parked.call
        same = call.name == name and to_canonical_json(call.arguments) == to_canonical_json(
            arguments
        )
        return parked.context if same else None

    def clear(self) -> None:
        """Nobody is left to answer."""
        self._pending.clear()

    def _evict(self) -> None:
        now = self._clock()
        for state in [key for key, parked in self._pending.items() if parked.expires_at < now]:
            del self._pending[state]
        while len(self._pending) >= MAX_PENDING_QUESTIONS:
            del self._pending[next(iter(self._pending))]


@dataclass(frozen=True, slots=True)
class SessionApproval:
    """A person's yes for as long as the scope lives: allow rules, given at a call of `tool`.

    `definition` is the digest of the upstream tool that was approved; None for a built-in.
    """

    tool: str
    rules: tuple[RuleText, ...]
    definition_digest: str | None = None


class Scope:
    """The state shared by the calls of one process, session or principal."""

    def __init__(
        self, cwd: Path | None, *, limit: int, batch_settings: BatchSettings | None = None
    ) -> None:
        self.id = secrets.token_hex(8)
        self.admission = Admission(limit)
        self.batch_window = BatchWindow(batch_settings or BatchSettings(), self.apply_changes)
        self.pending_questions = PendingQuestions()
        self.pending_requests = PendingRequests()
        self.cwd = cwd
        self.session_started: anyio.Event | None = None
        """Set when hooks have been told of the session's start; None before its first call."""

        self._files: dict[str, FileSeen] = {}
        self._reported_stale: dict[str, str] = {}
        self._delivered: dict[str, None] = {}
        self._activated: dict[str, None] = {}
        self._budgets: WeakKeyDictionary[Batch, BatchBudget] = WeakKeyDictionary()
        self._notes: list[str] = []
        self._approvals: dict[SessionApproval, None] = {}

    @property
    def files(self) -> Mapping[str, FileSeen]:
        """As they were last read or written here, the most recent last."""
        return self._files

    @property
    def delivered_files(self) -> tuple[str, ...]:
        """Kept results and outputs that were handed out here, the most recent last."""
        return tuple(self._delivered)

    @property
    def activated_tools(self) -> tuple[str, ...]:
        """The rule names of the tools that were found here, in the order of their finding."""
        return tuple(self._activated)

    def report_stale(self, changed: Mapping[str, str]) -> tuple[str, ...]:
        """Of files that are not as they were read, by what they are now: those that this scope has
        not been told of."""
        news = {path: now for path, now in changed.items() if self._reported_stale.get(path) != now}
        self._reported_stale.update(news)
        return tuple(news)

    def get_budget(self, batch: Batch) -> BatchBudget:
        """Of a whole message all results are known before one is delivered: they are judged
        together then, and not one by one as they come."""
        return self._budgets.setdefault(
            batch, BatchBudget(sys.maxsize) if batch.is_message else BatchBudget()
        )

    def find_seen_file(self, path: str) -> FileSeen | None:
        return self._files.get(path)

    def is_delivered(self, path: str) -> bool:
        return path in self._delivered

    def mark_delivered(self, path: str) -> None:
        """A kept result was handed out: this scope may read it."""
        self._delivered.pop(path, None)
        self._delivered[path] = None

    def add_note(self, text: str) -> None:
        """For the model, with the next result of this scope."""
        self._notes = [*self._notes, text][-MAX_NOTES:]

    def take_notes(self) -> list[str]:
        notes, self._notes = self._notes, []
        return notes

    def approve(self, approval: SessionApproval) -> None:
        self._approvals[approval] = None

    def list_approved_rules(self, tool: Tool) -> tuple[RuleText, ...]:
        """The rules that approvals of this session add for a call of `tool`; one that was given to
        another definition of it counts no more."""
        return tuple(
            rule
            for approval in self._approvals
            if approval.tool != tool.rule_name or _is_current(approval, tool)
            for rule in approval.rules
        )

    def forget_approvals(self, rule_names: Collection[str]) -> None:
        """What was approved of these tools is asked again: they are not what they were."""
        kept = [each for each in self._approvals if each.tool not in rule_names]
        self._approvals = dict.fromkeys(kept)

    def apply_changes(self, changes: Iterable[ContextChange]) -> None:
        for change in changes:
            match change:
                case FileRead(path, seen):
                    self._remember_file(path, seen)
                case DirectoryChanged(path):
                    self.cwd = path
                case FileDelivered(path):
                    self.mark_delivered(path)
                case ToolsActivated(tools):
                    self._activated |= dict.fromkeys(tools)

    def _remember_file(self, path: str, seen: FileSeen) -> None:
        before = self._files.get(path)
        # A later look at a few lines does not undo having read the whole of the same content.
        if seen.partial and before == replace(seen, partial=False):
            return
        self._files.pop(path, None)
        self._reported_stale.pop(path, None)
        self._files[path] = seen


def _is_current(approval: SessionApproval, tool: Tool) -> bool:
    return approval.definition_digest in (None, hash_definition(tool.definition))
