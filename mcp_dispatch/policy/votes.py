"""Collects the votes on one call: of rules, limits, protected paths and the permission mode."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote
from mcp_dispatch.policy.commands.accept_edits import is_accepted_edit
from mcp_dispatch.policy.commands.critical_removal import find_critical_removal
from mcp_dispatch.policy.commands.file_access import FileAccess
from mcp_dispatch.policy.commands.pattern import RuleMatch
from mcp_dispatch.policy.commands.read_access import ReadAccess
from mcp_dispatch.policy.facts import CallFacts, FileNames, build_anchors, resolve_accesses
from mcp_dispatch.policy.paths.protected import ProtectedPaths
from mcp_dispatch.policy.rules.allow import AllowRules
from mcp_dispatch.policy.rules.deny_ask import DenyAskRules
from mcp_dispatch.policy.rules.model import MalformedRule, ParsedRule, build_origin
from mcp_dispatch.settings.models import PermissionMode

TIER_BY_EFFECT = {Effect.ALLOW: Tier.ALLOW, Effect.ASK: Tier.HARD_ASK, Effect.DENY: Tier.DENY}
_PROTECTED_PATHS = "protected paths"


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """What applies to every call. `working_directories` are the workspace and added directories."""

    mode: PermissionMode
    home: Path
    workspace: tuple[Path, ...]
    working_directories: tuple[Path, ...]
    deny_ask_rules: DenyAskRules
    allow_rules: AllowRules
    protected_paths: ProtectedPaths
    block_reads_outside: bool = False
    block_writes_outside: bool = False

    @property
    def mode_origin(self) -> Origin:
        return Origin(f"permission mode {self.mode.value}")


class VoteCollector:
    """Collects all votes on one call, except those of hooks and of the tool itself."""

    def __init__(self, config: PolicyConfig, facts: CallFacts) -> None:
        self._config = config
        self._facts = facts
        # A deny rule applies from the current directory of the shell and from the workspace.
        self._anchors = build_anchors(config.home, config.workspace, facts.subject.cwd)
        self._workspace_anchors = self._anchors.with_directories(config.workspace)

    def collect(self) -> list[Vote]:
        """Return the votes; the last one is always the fallback vote."""
        return [
            *self._collect_rule_votes(),
            *self._collect_boundary_votes(),
            *self._collect_protected_path_votes(),
            *self._collect_command_votes(),
            *self._collect_allow_votes(),
            self._build_fallback_vote(),
        ]

    def is_inside(self, names: FileNames) -> bool:
        """Return whether every name of the file lies in a working directory."""
        return self._anchors.contains_all(names, self._config.working_directories)

    def _collect_rule_votes(self) -> Iterator[Vote]:
        rules = self._config.deny_ask_rules
        if not rules.empty:
            for rule, match in rules.find_matching(self._facts, self._anchors):
                yield build_rule_vote(rule, match)

    def _collect_boundary_votes(self) -> Iterator[Vote]:
        """Apply the `block…OutsideWorkingDirectories` settings, and deny unresolvable paths."""
        facts = self._facts
        if facts.unresolved_reason is not None:
            yield _deny(facts.unresolved_reason, "path check")
        if self._config.block_reads_outside and not facts.subject.delivered:
            key = "blockReadsOutsideWorkingDirectories"
            if self._has_file_outside(facts.reads):
                yield _deny("it reads outside the working directories", key)
            if self._has_file_outside((*facts.shell_reads, *facts.shell_mentions)):
                yield _ask("the command names a path outside the working directories", key)
        if self._config.block_writes_outside:
            key = "blockWritesOutsideWorkingDirectories"
            if self._has_file_outside(facts.writes):
                yield _deny("it writes outside the working directories", key)
            if any(_is_settings_file(name) for names in facts.writes for name in names):
                yield _deny("it writes a settings file", key)

    def _collect_protected_path_votes(self) -> Iterator[Vote]:
        facts, protected = self._facts, self._config.protected_paths
        writes = (*facts.writes, *facts.shell_writes)
        reads = () if facts.subject.delivered else facts.reads
        if any(map(protected.is_private, (*reads, *facts.shell_reads, *facts.shell_mentions))):
            yield _deny("it reaches into our own files", _PROTECTED_PATHS)
        if any(map(protected.is_own_config, writes)):
            yield _deny("it writes a file that decides what is allowed here", _PROTECTED_PATHS)
        elif any(map(protected.contains_private, writes)):
            yield _ask("it changes a directory that holds our own files", _PROTECTED_PATHS)
        elif any(map(protected.is_own_config, self._list_unread_mentions())):
            reason = "the command names a file that decides what is allowed here"
            yield _ask(reason, _PROTECTED_PATHS)
        bypassed = self._config.mode is PermissionMode.BYPASS_PERMISSIONS
        if not bypassed and any(map(protected.is_other_config, writes)):
            yield _ask("it writes a protected path", _PROTECTED_PATHS)

    def _collect_command_votes(self) -> Iterator[Vote]:
        """Ask about dangerous commands, whatever the mode is."""
        facts, config = self._facts, self._config
        if facts.runs_mcp_dispatch:
            yield _ask("the command runs mcp-dispatch itself", _PROTECTED_PATHS)
        if facts.parsed_command is None:
            return
        cwd = facts.subject.cwd
        removed = find_critical_removal(
            facts.parsed_command, (cwd,) if cwd else (), config.working_directories, config.home
        )
        if removed is not None:
            yield _ask(f"it removes {removed}", "critical removals")

    def _collect_allow_votes(self) -> Iterator[Vote]:
        facts, config = self._facts, self._config
        if config.mode is PermissionMode.BYPASS_PERMISSIONS:
            yield _allow("the mode asks nothing", config.mode_origin)
        if config.mode is PermissionMode.ACCEPT_EDITS and self._is_edit_inside():
            yield _allow("it edits inside the working directories", config.mode_origin)
        rules = config.allow_rules
        permitted = config.mode is not PermissionMode.PLAN or facts.subject.changes_nothing
        if permitted and not rules.empty:
            for rule in rules.find_covering(
                facts, self._workspace_anchors, self._may_write, self._can_read
            ):
                yield _allow("an allow rule covers it", build_origin(rule))
        yield from self._collect_read_votes()

    def _is_edit_inside(self) -> bool:
        writes = self._facts.writes
        if writes:
            return all(map(self.is_inside, writes))
        return is_accepted_edit(self._facts, self._is_access_inside, self._can_read)

    def _collect_read_votes(self) -> Iterator[Vote]:
        facts, origin = self._facts, Origin("built-in read-only tools")
        if facts.subject.harmless:
            yield _allow("it only looks at our own answers", origin)
        if facts.subject.delivered and facts.subject.read_paths:
            yield _allow("it reads a result that was delivered", origin)
        elif facts.reads and all(map(self.is_inside, facts.reads)):
            yield _allow("it reads inside the working directories", origin)
        if self._is_permitted_read_command():
            yield _allow("it only looks at what is inside", Origin("built-in read-only commands"))

    def _is_permitted_read_command(self) -> bool:
        shell = self._facts.shell_access
        if shell is None or not self._read_access.can_read_all():
            return False
        plans = self._config.mode is PermissionMode.PLAN
        return not shell.redirects or (not plans and all(map(self._may_write, shell.redirects)))

    def _build_fallback_vote(self) -> Vote:
        reason = "no rule covers this"
        unparsed = self._facts.unparsed_reason
        if unparsed is not None:
            reason = (
                f"no rule covers this, and the command is not fully understood ({unparsed}): split "
                "it into simple commands"
            )
        return Vote(Tier.UNDECIDED, Effect.ASK, reason, self._config.mode_origin)

    @cached_property
    def _read_access(self) -> ReadAccess:
        config = self._config
        return ReadAccess(
            self._facts,
            self._anchors,
            config.working_directories,
            config.deny_ask_rules,
            config.protected_paths,
        )

    def _can_read(self, position: int) -> bool:
        """Return whether the command at that position only reads, and only permitted files."""
        return self._read_access.can_read(position)

    def _may_write(self, access: FileAccess) -> bool:
        """Return whether writing the target of a redirect would be allowed by itself."""
        files = self._resolve_files(access)
        if files is None or not all(map(self.is_inside, files)):
            return False
        if self._config.mode is PermissionMode.ACCEPT_EDITS:
            return True
        return bool(self._config.allow_rules.find_write_rules(files, self._workspace_anchors))

    def _is_access_inside(self, access: FileAccess) -> bool:
        files = self._resolve_files(access)
        return files is not None and all(map(self.is_inside, files))

    def _resolve_files(self, access: FileAccess) -> list[FileNames] | None:
        """Return the files that the path may mean, or None if one of them is not known."""
        files = list(resolve_accesses([access], self._config.home))
        return None if len(files) < len(access.directories or (None,)) else files

    def _list_unread_mentions(self) -> list[FileNames]:
        """Return the files that the command names and is not known to only read."""
        reads = set(self._facts.shell_reads)
        return [names for names in self._facts.shell_mentions if names not in reads]

    def _has_file_outside(self, files: Iterable[FileNames]) -> bool:
        return any(not self.is_inside(names) for names in files)


def build_rule_vote(rule: ParsedRule, match: RuleMatch = RuleMatch.YES) -> Vote:
    word = "deny" if rule.effect is Effect.DENY else "ask"
    if match is RuleMatch.MAYBE:
        reason = f"only the running shell knows whether a {word} rule means this"
        return Vote(Tier.HARD_ASK, Effect.ASK, reason, build_origin(rule))
    verb = "forbids it" if rule.effect is Effect.DENY else "wants a person to confirm it"
    reason = f"{'a' if word == 'deny' else 'an'} {word} rule {verb}"
    if isinstance(rule, MalformedRule):
        reason = f"a malformed {word} rule stands for every call of its tool: {rule.reason}"
    return Vote(TIER_BY_EFFECT[rule.effect], rule.effect, reason, build_origin(rule))


def _deny(reason: str, source: str) -> Vote:
    return Vote(Tier.DENY, Effect.DENY, reason, Origin(source))


def _ask(reason: str, source: str) -> Vote:
    return Vote(Tier.HARD_ASK, Effect.ASK, reason, Origin(source))


def _allow(reason: str, origin: Origin) -> Vote:
    return Vote(Tier.ALLOW, Effect.ALLOW, reason, origin)


def _is_settings_file(name: Path) -> bool:
    return name.parent.name == ".claude" and name.name in ("settings.json", "settings.local.json")
