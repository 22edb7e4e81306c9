"""One call before the rules: everyone who has something to say of it casts a vote."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.fs.resolve import Places
from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote
from mcp_dispatch.policy.commands.accept_edits import accepted_edits
from mcp_dispatch.policy.commands.critical_removal import critical_removal
from mcp_dispatch.policy.commands.file_access import Touch
from mcp_dispatch.policy.commands.pattern import Match
from mcp_dispatch.policy.commands.read_access import Looking
from mcp_dispatch.policy.facts import Evidence, Names, resolved
from mcp_dispatch.policy.paths.protected import ProtectedPaths
from mcp_dispatch.policy.rules.allow import AllowRules
from mcp_dispatch.policy.rules.deny_ask import AnyRule, ClosedRules, not_understood
from mcp_dispatch.policy.rules.model import Malformed, origin_of
from mcp_dispatch.settings.models import PermissionMode

TIERS = {Effect.ALLOW: Tier.ALLOW, Effect.ASK: Tier.HARD_ASK, Effect.DENY: Tier.DENY}
_PROTECTED = "protected paths"


@dataclass(frozen=True, slots=True)
class Order:
    """What holds for every call. `working` are the workspace and the directories added to it."""

    mode: PermissionMode
    home: Path
    workspace: tuple[Path, ...]
    working: tuple[Path, ...]
    closed: ClosedRules
    allowing: AllowRules
    protected: ProtectedPaths
    block_reads_outside: bool = False
    block_writes_outside: bool = False

    @property
    def mode_origin(self) -> Origin:
        return Origin(f"permission mode {self.mode.value}")


class Hearing:
    """The votes of everything but hooks and the tool itself, for one call."""

    def __init__(self, order: Order, evidence: Evidence) -> None:
        self._order = order
        self._evidence = evidence
        cwd = evidence.subject.cwd
        # A deny holds from wherever the shell has moved to as well as from the workspace.
        moved = (*order.workspace, *((cwd,) if cwd else ()))
        self._places = Places(order.home, tuple(dict.fromkeys(moved)))
        self._settled = self._places.seen_from(order.workspace)
        self._looking = Looking(
            evidence, self._places, order.working, order.closed, order.protected
        )

    def votes(self) -> list[Vote]:
        """The last is always the soft ask."""
        return [
            *self._of_rules(),
            *self._of_limits(),
            *self._of_protection(),
            *self._for_caution(),
            *self._to_allow(),
            self._undecided(),
        ]

    def inside(self, names: Names) -> bool:
        """Whether every name of the file lies in a working directory."""
        return self._places.all_inside(names, self._order.working)

    def _of_rules(self) -> Iterator[Vote]:
        for rule, match in self._order.closed.about(self._evidence, self._places):
            yield vote_of(rule, match)

    def _of_limits(self) -> Iterator[Vote]:
        """`block…OutsideWorkingDirectories`, and paths that cannot be followed."""
        evidence = self._evidence
        if evidence.unresolved is not None:
            yield _deny(evidence.unresolved, "path check")
        if self._order.block_reads_outside and not evidence.subject.delivered:
            key = "blockReadsOutsideWorkingDirectories"
            if self._any_outside(evidence.reads):
                yield _deny("it reads outside the working directories", key)
            if self._any_outside((*evidence.shell_reads, *evidence.shell_names)):
                yield _ask("the command names a path outside the working directories", key)
        if self._order.block_writes_outside:
            key = "blockWritesOutsideWorkingDirectories"
            if self._any_outside(evidence.writes):
                yield _deny("it writes outside the working directories", key)
            if any(_is_settings(name) for names in evidence.writes for name in names):
                yield _deny("it writes a settings file", key)

    def _of_protection(self) -> Iterator[Vote]:
        evidence, protected = self._evidence, self._order.protected
        writes = (*evidence.writes, *evidence.shell_writes)
        reads = () if evidence.subject.delivered else evidence.reads
        if any(map(protected.private, (*reads, *evidence.shell_reads, *evidence.shell_names))):
            yield _deny("it reaches into our own files", _PROTECTED)
        if any(map(protected.own, writes)):
            yield _deny("it writes a file that decides what is allowed here", _PROTECTED)
        elif any(map(protected.holds_own, writes)):
            yield _ask("it changes a directory that holds our own files", _PROTECTED)
        elif any(map(protected.own, self._only_named())):
            yield _ask("the command names a file that decides what is allowed here", _PROTECTED)
        bypassed = self._order.mode is PermissionMode.BYPASS_PERMISSIONS
        if not bypassed and any(map(protected.other, writes)):
            yield _ask("it writes a protected path", _PROTECTED)

    def _for_caution(self) -> Iterator[Vote]:
        """Questions that every mode asks."""
        evidence, order = self._evidence, self._order
        if evidence.runs_us:
            yield _ask("the command runs mcp-dispatch itself", _PROTECTED)
        if evidence.reading is None:
            return
        cwd = evidence.subject.cwd
        here = (cwd,) if cwd else ()
        removed = critical_removal(evidence.reading, here, order.working, order.home)
        if removed is not None:
            yield _ask(f"it removes {removed}", "critical removals")

    def _to_allow(self) -> Iterator[Vote]:
        order, evidence = self._order, self._evidence
        if order.mode is PermissionMode.BYPASS_PERMISSIONS:
            yield _allow("the mode asks nothing", order.mode_origin)
        if order.mode is PermissionMode.ACCEPT_EDITS and self._only_edits_inside():
            yield _allow("it edits inside the working directories", order.mode_origin)
        if order.mode is not PermissionMode.PLAN or evidence.subject.reads:
            looks = self._looking.at
            for rule in order.allowing.covering(evidence, self._settled, self._may_write, looks):
                yield _allow("an allow rule covers it", origin_of(rule))
        yield from self._for_reading()

    def _only_edits_inside(self) -> bool:
        writes = self._evidence.writes
        if writes:
            return all(map(self.inside, writes))
        return accepted_edits(self._evidence, self._is_inside, self._looking.at)

    def _for_reading(self) -> Iterator[Vote]:
        evidence, origin = self._evidence, Origin("built-in read-only tools")
        if evidence.subject.harmless:
            yield _allow("it only looks at our own answers", origin)
        if evidence.subject.delivered and evidence.subject.read_paths:
            yield _allow("it reads a result that was delivered", origin)
        elif evidence.reads and all(map(self.inside, evidence.reads)):
            yield _allow("it reads inside the working directories", origin)
        if self._only_looks():
            yield _allow("it only looks at what is inside", Origin("built-in read-only commands"))

    def _only_looks(self) -> bool:
        shell = self._evidence.shell
        if shell is None or not self._looking.only():
            return False
        plans = self._order.mode is PermissionMode.PLAN
        return not shell.redirects or (not plans and all(map(self._may_write, shell.redirects)))

    def _undecided(self) -> Vote:
        reason = "no rule covers this"
        unclear = not_understood(self._evidence)
        if unclear is not None:
            reason = (
                f"no rule covers this, and the command is not fully understood ({unclear}): split "
                "it into simple commands"
            )
        return Vote(Tier.UNDECIDED, Effect.ASK, reason, self._order.mode_origin)

    def _may_write(self, touch: Touch) -> bool:
        """Whether a redirect's target is a write that would be allowed by itself."""
        files = self._files_of(touch)
        if files is None or not all(map(self.inside, files)):
            return False
        accepted = self._order.mode is PermissionMode.ACCEPT_EDITS
        return accepted or bool(self._order.allowing.for_writes(files, self._settled))

    def _is_inside(self, touch: Touch) -> bool:
        files = self._files_of(touch)
        return files is not None and all(map(self.inside, files))

    def _files_of(self, touch: Touch) -> list[Names] | None:
        """The files it may mean; None where one of them is not known."""
        files = list(resolved([touch], self._order.home))
        return None if len(files) < len(touch.directories or (None,)) else files

    def _only_named(self) -> list[Names]:
        """Files that a command names without being known to only read them."""
        read = set(self._evidence.shell_reads)
        return [names for names in self._evidence.shell_names if names not in read]

    def _any_outside(self, files: Iterable[Names]) -> bool:
        return any(not self.inside(names) for names in files)


def vote_of(rule: AnyRule, match: Match = Match.YES) -> Vote:
    word = "deny" if rule.effect is Effect.DENY else "ask"
    if match is Match.MAYBE:
        reason = f"only the running shell knows whether a {word} rule means this"
        return Vote(Tier.HARD_ASK, Effect.ASK, reason, origin_of(rule))
    verb = "forbids it" if rule.effect is Effect.DENY else "wants a person to confirm it"
    reason = f"{'a' if word == 'deny' else 'an'} {word} rule {verb}"
    if isinstance(rule, Malformed):
        reason = f"a malformed {word} rule stands for every call of its tool: {rule.reason}"
    return Vote(TIERS[rule.effect], rule.effect, reason, origin_of(rule))


def _deny(reason: str, source: str) -> Vote:
    return Vote(Tier.DENY, Effect.DENY, reason, Origin(source))


def _ask(reason: str, source: str) -> Vote:
    return Vote(Tier.HARD_ASK, Effect.ASK, reason, Origin(source))


def _allow(reason: str, origin: Origin) -> Vote:
    return Vote(Tier.ALLOW, Effect.ALLOW, reason, origin)


def _is_settings(name: Path) -> bool:
    return name.parent.name == ".claude" and name.name in ("settings.json", "settings.local.json")
