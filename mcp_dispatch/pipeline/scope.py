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
from mcp_dispatch.model.calls import Asked, ToolCall
from mcp_dispatch.model.json import Json, canonical
from mcp_dispatch.model.tools import (
    ContextChange,
    DirectoryChanged,
    FileDelivered,
    FileRead,
    FileSeen,
    Tool,
    ToolsActivated,
    definition_digest,
)
from mcp_dispatch.pipeline.batch import Batch, Batches, Batching
from mcp_dispatch.pipeline.pending import Rests
from mcp_dispatch.results.limits import Budget
from mcp_dispatch.settings.settings import RuleText

PARKED_SECONDS = 600.0
"""How long a question that was handed to the client stays answerable."""

PARKED_AT_MOST = 1000
NOTES_AT_MOST = 50


@dataclass(frozen=True, slots=True)
class _Parked:
    call: ToolCall
    asked: Asked
    until: float


class OpenAsks:
    """Questions that left with a `requestState`. Each state works once, for the same call only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._parked: dict[str, _Parked] = {}

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, call: ToolCall, asked: Asked) -> str:
        self._forget_old()
        state = secrets.token_urlsafe(24)
        self._parked[state] = _Parked(call, asked, self._clock() + PARKED_SECONDS)
        return state

    def take(self, state: str, name: str, arguments: Json) -> Asked | None:
        """What the call that asked had been told; None where nothing (any more) waits for this answer."""
        parked = self._parked.pop(state, None)
        if parked is None or parked.until < self._clock():
            return None
        call = parked.call
        same = call.name == name and canonical(call.arguments) == canonical(arguments)
        return parked.asked if same else None

    def clear(self) -> None:
        """Nobody is left to answer."""
        self._parked.clear()

    def _forget_old(self) -> None:
        now = self._clock()
        for state in [key for key, parked in self._parked.items() if parked.until < now]:
            del self._parked[state]
        while len(self._parked) >= PARKED_AT_MOST:
            del self._parked[next(iter(self._parked))]


@dataclass(frozen=True, slots=True)
class SessionApproval:
    """A person's yes for as long as the scope lives: allow rules, given at a call of `tool`.

    `definition` is the digest of the upstream tool that was approved; None for a built-in.
    """

    tool: str
    rules: tuple[RuleText, ...]
    definition: str | None = None


class Scope:
    """The state shared by the calls of one process, session or principal."""

    def __init__(self, cwd: Path | None, *, limit: int, batching: Batching | None = None) -> None:
        self.id = secrets.token_hex(8)
        self.admission = Admission(limit)
        self.batches = Batches(batching or Batching(), self.apply)
        self.asks = OpenAsks()
        self.rests = Rests()
        self.cwd = cwd
        self.begun: anyio.Event | None = None
        """Set when hooks have been told of the session's start; None before its first call."""

        self._files: dict[str, FileSeen] = {}
        self._stale: dict[str, str] = {}
        self._delivered: dict[str, None] = {}
        self._activated: dict[str, None] = {}
        self._budgets: WeakKeyDictionary[Batch, Budget] = WeakKeyDictionary()
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
    def activated(self) -> tuple[str, ...]:
        """The rule names of the tools that were found here, in the order of their finding."""
        return tuple(self._activated)

    def tell_stale(self, changed: Mapping[str, str]) -> tuple[str, ...]:
        """Of files that are not as they were read, by what they are now: those that this scope has
        not been told of."""
        news = {path: now for path, now in changed.items() if self._stale.get(path) != now}
        self._stale.update(news)
        return tuple(news)

    def budget_of(self, batch: Batch) -> Budget:
        """Of a whole message all results are known before one is delivered: they are judged
        together then, and not one by one as they come."""
        return self._budgets.setdefault(batch, Budget(sys.maxsize) if batch.whole else Budget())

    def seen(self, path: str) -> FileSeen | None:
        return self._files.get(path)

    def delivered(self, path: str) -> bool:
        return path in self._delivered

    def deliver(self, path: str) -> None:
        """A kept result was handed out: this scope may read it."""
        self._delivered.pop(path, None)
        self._delivered[path] = None

    def tell_later(self, text: str) -> None:
        """For the model, with the next result of this scope."""
        self._notes = [*self._notes, text][-NOTES_AT_MOST:]

    def take_notes(self) -> list[str]:
        notes, self._notes = self._notes, []
        return notes

    def approve(self, approval: SessionApproval) -> None:
        self._approvals[approval] = None

    def approved_rules(self, tool: Tool) -> tuple[RuleText, ...]:
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

    def apply(self, changes: Iterable[ContextChange]) -> None:
        for change in changes:
            match change:
                case FileRead(path, seen):
                    self._remember(path, seen)
                case DirectoryChanged(path):
                    self.cwd = path
                case FileDelivered(path):
                    self.deliver(path)
                case ToolsActivated(tools):
                    self._activated |= dict.fromkeys(tools)

    def _remember(self, path: str, seen: FileSeen) -> None:
        before = self._files.get(path)
        # A later look at a few lines does not undo having read the whole of the same content.
        if seen.partial and before == replace(seen, partial=False):
            return
        self._files.pop(path, None)
        self._stale.pop(path, None)
        self._files[path] = seen


def _is_current(approval: SessionApproval, tool: Tool) -> bool:
    return approval.definition in (None, definition_digest(tool.definition))
