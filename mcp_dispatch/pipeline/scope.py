"""A scope: calls that share a queue, the files read, a working directory and pending requests."""

import secrets
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakKeyDictionary

import anyio

from mcp_dispatch.concurrency.admission import Admission
from mcp_dispatch.model.calls import AskedContext
from mcp_dispatch.model.hook_context import HookContext, HookSink
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
from mcp_dispatch.pipeline.pending import (
    MAX_PENDING_QUESTIONS,
    MAX_PENDING_REQUESTS,
    PendingRequest,
    PendingRequests,
)
from mcp_dispatch.results.limits import BatchBudget
from mcp_dispatch.settings.settings import RuleText

MAX_NOTES = 50


@dataclass(frozen=True, slots=True)
class SessionApproval:
    """Allow rules that a person approved at a call of `tool`, for the lifetime of the scope.

    `definition_digest` identifies the upstream tool that was approved; None for a built-in tool.
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
        self.pending_questions = PendingRequests[AskedContext](MAX_PENDING_QUESTIONS)
        self.pending_requests = PendingRequests[PendingRequest](
            MAX_PENDING_REQUESTS, PendingRequest.drop
        )
        self.cwd = cwd
        self.session_started: anyio.Event | None = None
        """Set when the SessionStart hooks have ended; None before the first call."""

        self._files: dict[str, FileSeen] = {}
        self._reported_stale: dict[str, str] = {}
        self._delivered: dict[str, None] = {}
        self._activated: dict[str, None] = {}
        self._budgets: WeakKeyDictionary[Batch, BatchBudget] = WeakKeyDictionary()
        self._notes: list[str] = []
        self._approvals: dict[SessionApproval, None] = {}

    @property
    def files(self) -> Mapping[str, FileSeen]:
        """The files as calls of this scope last read or wrote them, the most recent last."""
        return self._files

    @property
    def activated_tools(self) -> tuple[str, ...]:
        """The rule names of the tools that were found in this scope, in the order of finding."""
        return tuple(self._activated)

    def report_stale(self, changed: Mapping[str, str]) -> tuple[str, ...]:
        """Return the changed files that were not reported yet. `changed` maps the path of a file to
        the digest of its current content."""
        unreported = {
            path: digest
            for path, digest in changed.items()
            if self._reported_stale.get(path) != digest
        }
        self._reported_stale.update(unreported)
        return tuple(unreported)

    def get_budget(self, batch: Batch) -> BatchBudget:
        """Return the size budget of a batch. It is unlimited for a whole message: its results are
        measured together before the first is delivered."""
        return self._budgets.setdefault(
            batch, BatchBudget(sys.maxsize) if batch.is_message else BatchBudget()
        )

    def find_seen_file(self, path: str) -> FileSeen | None:
        return self._files.get(path)

    def is_delivered(self, path: str) -> bool:
        return path in self._delivered

    def mark_delivered(self, path: str) -> None:
        """Record that a stored result was delivered: this scope may read it."""
        self._delivered.pop(path, None)
        self._delivered[path] = None

    def add_note(self, text: str) -> None:
        """Keep a text for the model; the next result of this scope carries it."""
        self._notes = [*self._notes, text][-MAX_NOTES:]

    def take_notes(self) -> list[str]:
        notes, self._notes = self._notes, []
        return notes

    def create_hook_context(
        self, transcript_path: Path, permission_mode: str, sink: HookSink
    ) -> HookContext:
        return HookContext(self.id, transcript_path, self.cwd or Path.cwd(), permission_mode, sink)

    def approve(self, approval: SessionApproval) -> None:
        self._approvals[approval] = None

    def list_approved_rules(self, tool: Tool) -> tuple[RuleText, ...]:
        """Return the rules that approvals of this session add for a call of `tool`. An approval of
        another definition of the same tool does not count."""
        return tuple(
            rule
            for approval in self._approvals
            if approval.tool != tool.rule_name or _is_current(approval, tool)
            for rule in approval.rules
        )

    def forget_approvals(self, rule_names: Collection[str]) -> None:
        """Forget the approvals of tools whose definitions have changed."""
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
        # A partial read does not replace a complete read of the same content.
        if seen.partial and before == replace(seen, partial=False):
            return
        self._files.pop(path, None)
        self._reported_stale.pop(path, None)
        self._files[path] = seen


def _is_current(approval: SessionApproval, tool: Tool) -> bool:
    return approval.definition_digest in (None, hash_definition(tool.definition))
