"""One call before the rules: everyone who has something to say of it casts a vote."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.fs.resolve import PathAnchors
from mcp_dispatch.model.decision import Effect, Origin, Tier, Vote
from mcp_dispatch.policy.commands.accept_edits import is_accepted_edit
from mcp_dispatch.policy.commands.critical_removal import find_critical_removal
from mcp_dispatch.policy.commands.file_access import FileAccess
from mcp_dispatch.policy.commands.pattern import RuleMatch
from mcp_dispatch.policy.commands.read_access import ReadAccess
from mcp_dispatch.policy.facts import CallFacts, FileNames, resolve_accesses
from mcp_dispatch.policy.paths.protected import ProtectedPaths
from mcp_dispatch.policy.rules.allow import AllowRules
from mcp_dispatch.policy.rules.deny_ask import DenyAskRules, ParsedRule, explain_incomplete_parse
from mcp_dispatch.policy.rules.model import MalformedRule, build_origin
from mcp_dispatch.settings.models import PermissionMode

TIER_BY_EFFECT = {Effect.ALLOW: Tier.ALLOW, Effect.ASK: Tier.HARD_ASK, Effect.DENY: Tier.DENY}
_PROTECTED_PATHS_SOURCE = "protected paths"


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """What holds for every call. `working` are the workspace and the directories added to it."""

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
    """The votes of everything but hooks and the tool itself, for one call."""

    def __init__(self, config: PolicyConfig, facts: CallFacts) -> None:
        self._config = config
        self._facts = facts
        cwd = facts.subject.cwd
        # A deny holds from wherever the shell has moved to as well as from the workspace.
        moved = (*config.workspace, *((cwd,) if cwd else ()))
        self._anchors = PathAnchors(config.home, tuple(dict.fromkeys(moved)))
        self._workspace_anchors = self._anchors.with_directories(config.workspace)
        self._read_access = ReadAccess(
            facts,
            self._anchors,
            config.working_directories,
            config.deny_ask_rules,
            config.protected_paths,
        )

    def collect(self) -> list[Vote]:
        """The last is always the soft ask."""
        return [
            *self._collect_rule_votes(),
            *self._collect_boundary_votes(),
            *self._collect_protected_path_votes(),
            *self._collect_caution_votes(),
            *self._collect_allow_votes(),
            self._build_fallback_vote(),
        ]

    def is_inside(self, names: FileNames) -> bool:
        """Whether every name of the file lies in a working directory."""
        return self._anchors.contains_all(names, self._config.working_directories)

    def _collect_rule_votes(self) -> Iterator[Vote]:
        for rule, match in self._config.deny_ask_rules.find_matching(self._facts, self._anchors):
            yield build_rule_vote(rule, match)

    def _collect_boundary_votes(self) -> Iterator[Vote]:
        """`block…OutsideWorkingDirectories`, and paths that cannot be followed."""
        evidence = self._facts
        if evidence.unresolved_reason is not None:
            yield _deny(evidence.unresolved_reason, "path check")
        if self._config.block_reads_outside and not evidence.subject.delivered:
            key = "blockReadsOutsideWorkingDirectories"
            if self._has_file_outside(evidence.reads):
                yield _deny("it reads outside the working directories", key)
            if self._has_file_outside((*evidence.shell_reads, *evidence.shell_mentions)):
                yield _ask("the command names a path outside the working directories", key)
        if self._config.block_writes_outside:
            key = "blockWritesOutsideWorkingDirectories"
            if self._has_file_outside(evidence.writes):
                yield _deny("it writes outside the working directories", key)
            if any(_is_settings_file(name) for names in evidence.writes for name in names):
                yield _deny("it writes a settings file", key)

    def _collect_protected_path_votes(self) -> Iterator[Vote]:
        evidence, protected = self._facts, self._config.protected_paths
        writes = (*evidence.writes, *evidence.shell_writes)
        reads = () if evidence.subject.delivered else evidence.reads
        if any(
            map(protected.is_private, (*reads, *evidence.shell_reads, *evidence.shell_mentions))
        ):
            yield _deny("it reaches into our own files", _PROTECTED_PATHS_SOURCE)
        if any(map(protected.is_own_config, writes)):
            yield _deny(
                "it writes a file that decides what is allowed here", _PROTECTED_PATHS_SOURCE
            )
        elif any(map(protected.contains_private, writes)):
            yield _ask("it changes a directory that holds our own files", _PROTECTED_PATHS_SOURCE)
        elif any(map(protected.is_own_config, self._list_unread_mentions())):
            yield _ask(
                "the command names a file that decides what is allowed here",
                _PROTECTED_PATHS_SOURCE,
            )
        bypassed = self._config.mode is PermissionMode.BYPASS_PERMISSIONS
        if not bypassed and any(map(protected.is_other_config, writes)):
            yield _ask("it writes a protected path", _PROTECTED_PATHS_SOURCE)

    def _collect_caution_votes(self) -> Iterator[Vote]:
        """Questions that every mode asks."""
        evidence, order = self._facts, self._config
        if evidence.runs_mcp_dispatch:
            yield _ask("the command runs mcp-dispatch itself", _PROTECTED_PATHS_SOURCE)
        if evidence.parsed_command is None:
            return
        cwd = evidence.subject.cwd
        here = (cwd,) if cwd else ()
        removed = find_critical_removal(
            evidence.parsed_command, here, order.working_directories, order.home
        )
        if removed is not None:
            yield _ask(f"it removes {removed}", "critical removals")

    def _collect_allow_votes(self) -> Iterator[Vote]:
        order, evidence = self._config, self._facts
        if order.mode is PermissionMode.BYPASS_PERMISSIONS:
            yield _allow("the mode asks nothing", order.mode_origin)
        if order.mode is PermissionMode.ACCEPT_EDITS and self._is_edit_inside():
            yield _allow("it edits inside the working directories", order.mode_origin)
        if order.mode is not PermissionMode.PLAN or evidence.subject.changes_nothing:
            looks = self._read_access.can_read
            for rule in order.allow_rules.find_covering(
                evidence, self._workspace_anchors, self._may_write, looks
            ):
                yield _allow("an allow rule covers it", build_origin(rule))
        yield from self._collect_read_votes()

    def _is_edit_inside(self) -> bool:
        writes = self._facts.writes
        if writes:
            return all(map(self.is_inside, writes))
        return is_accepted_edit(self._facts, self._is_access_inside, self._read_access.can_read)

    def _collect_read_votes(self) -> Iterator[Vote]:
        evidence, origin = self._facts, Origin("built-in read-only tools")
        if evidence.subject.harmless:
            yield _allow("it only looks at our own answers", origin)
        if evidence.subject.delivered and evidence.subject.read_paths:
            yield _allow("it reads a result that was delivered", origin)
        elif evidence.reads and all(map(self.is_inside, evidence.reads)):
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
        unclear = explain_incomplete_parse(self._facts)
        if unclear is not None:
            reason = (
                f"no rule covers this, and the command is not fully understood ({unclear}): split "
                "it into simple commands"
            )
        return Vote(Tier.UNDECIDED, Effect.ASK, reason, self._config.mode_origin)

    def _may_write(self, access: FileAccess) -> bool:
        """Whether a redirect's target is a write that would be allowed by itself."""
        files = self._resolve_files(access)
        if files is None or not all(map(self.is_inside, files)):
            return False
        accepted = self._config.mode is PermissionMode.ACCEPT_EDITS
        return accepted or bool(
            self._config.allow_rules.find_write_rules(files, self._workspace_anchors)
        )

    def _is_access_inside(self, access: FileAccess) -> bool:
        files = self._resolve_files(access)
        return files is not None and all(map(self.is_inside, files))

    def _resolve_files(self, access: FileAccess) -> list[FileNames] | None:
        """The files it may mean; None where one of them is not known."""
        files = list(resolve_accesses([access], self._config.home))
        return None if len(files) < len(access.directories or (None,)) else files

    def _list_unread_mentions(self) -> list[FileNames]:
        """Files that a command names without being known to only read them."""
        read = set(self._facts.shell_reads)
        return [names for names in self._facts.shell_mentions if names not in read]

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
