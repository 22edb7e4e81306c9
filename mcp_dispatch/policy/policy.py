"""Decides about calls: every source casts votes, and the first tier with a vote decides."""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mcp_dispatch.fs.resolve import resolve_or_keep
from mcp_dispatch.model.decision import Decision, Effect, Origin, Tier, Vote, decide
from mcp_dispatch.model.tools import ToolAsk
from mcp_dispatch.policy.facts import build_anchors, collect_facts
from mcp_dispatch.policy.paths.hidden import HiddenPaths
from mcp_dispatch.policy.paths.protected import ProtectedPaths
from mcp_dispatch.policy.rules.allow import AllowRules
from mcp_dispatch.policy.rules.deny_ask import DenyAskRules
from mcp_dispatch.policy.rules.lint import check_server_name, check_server_tools
from mcp_dispatch.policy.rules.model import MalformedRule, ParsedRule, PermissionRule, ServerTarget
from mcp_dispatch.policy.rules.parse import parse_rule
from mcp_dispatch.policy.rules.suggest import (
    MAX_LASTING_RULES,
    format_allow_line,
    suggest_lasting_rules,
    suggest_rules,
)
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.policy.votes import TIER_BY_EFFECT, PolicyConfig, VoteCollector, build_rule_vote
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.problems import SettingsProblem, Severity
from mcp_dispatch.settings.settings import RuleText, Settings

_DENY_INSTEAD_OF_PROMPTING = "denyInsteadOfPrompting"
_MAX_CANDIDATE_RULES = 20
_MAX_EXTENDED_POLICIES = 64


class Policy:
    """The rules, permission mode and protected paths of one server.

    `own_directories` are the configuration and state directories of this server. `protected_files`
    are further files that no call may write, whether they exist or not. `problems` lists the rules
    that cannot be applied as they are written.
    """

    def __init__(
        self,
        settings: Settings,
        workspace_directories: Sequence[Path],
        own_directories: Sequence[Path],
        mode: PermissionMode,
        *,
        home: Path | None = None,
        protected_files: Sequence[Path] = (),
    ) -> None:
        self.mode = mode
        self.home = home or Path.home()
        self._asks_denied_by = (
            _DENY_INSTEAD_OF_PROMPTING if settings.permissions.deny_instead_of_prompting else None
        )
        if mode is PermissionMode.DONT_ASK:
            self._asks_denied_by = "dontAsk"
        self._rules = [parse_rule(text) for text in settings.rules.texts]
        workspace = tuple(workspace_directories)
        start = workspace[0] if workspace else Path("/")
        added = (start / path for path in settings.permissions.additional_directories)
        files = (*settings.report.files, *settings.hooks.scripts, *protected_files)
        self._config = PolicyConfig(
            mode=mode,
            home=self.home,
            workspace=workspace,
            working_directories=tuple(dict.fromkeys((*workspace, *added))),
            deny_ask_rules=DenyAskRules([rule for rule in self._rules if _is_deny_or_ask(rule)]),
            allow_rules=AllowRules(_select_allow_rules(self._rules)),
            protected_paths=ProtectedPaths(
                [name for path in own_directories for name in resolve_or_keep(path)],
                [name for path in files for name in resolve_or_keep(path)],
            ),
            block_reads_outside=settings.permissions.block_reads_outside,
            block_writes_outside=settings.permissions.block_writes_outside,
        )
        self.problems = tuple(_find_rule_problems(self._rules))
        self._extended_policies: dict[tuple[RuleText, ...], Policy] = {}

    @property
    def working_directories(self) -> tuple[Path, ...]:
        """The workspace and the directories that settings add to it."""
        return self._config.working_directories

    @property
    def hooks_answer_before_deny(self) -> bool:
        """Whether hooks may answer an ask before it becomes a deny."""
        return self._asks_denied_by == _DENY_INSTEAD_OF_PROMPTING

    def evaluate(
        self,
        subject: Subject,
        *,
        hook_votes: Iterable[Vote] = (),
        tool_ask: ToolAsk | None = None,
    ) -> Decision:
        votes = [*map(_set_hook_tier, hook_votes), *self.collect_votes(subject)]
        if tool_ask is not None:
            origin = Origin(subject.rule_name)
            votes.append(Vote(Tier.TOOL_ASK, Effect.ASK, tool_ask.reason, origin))
        return decide(map(self._deny_instead_of_ask, votes))

    def collect_votes(self, subject: Subject) -> list[Vote]:
        """Return all votes except those of hooks and the tool; the last is always the fallback vote."""
        return VoteCollector(self._config, collect_facts(subject, self.home)).collect()

    def find_tool_deny(self, rule_name: str, exposed_name: str, server: str | None) -> Vote | None:
        """Return the deny of every call of a tool, which is then neither listed nor found."""
        rules = self._config.deny_ask_rules
        if rules.empty:
            return None
        rule = rules.find_tool_deny(Subject(rule_name, exposed_name, server, {}, {}, None))
        return None if rule is None else build_rule_vote(rule)

    def find_server_deny(self, server: str) -> Vote | None:
        """Return the deny of all tools of a server; it also covers its resources and prompts."""
        rule = self._config.deny_ask_rules.find_server_deny(server)
        return None if rule is None else build_rule_vote(rule)

    def find_server_name_problems(self, servers: Collection[str]) -> tuple[SettingsProblem, ...]:
        """Report rules whose server name differs from one of `servers` only by case or `-`."""
        checked = [
            (rule, check_server_name(rule.target.server, servers))
            for rule in self._rules
            if isinstance(rule.target, ServerTarget)
        ]
        return tuple(_build_warning(rule, advice) for rule, advice in checked if advice is not None)

    def find_tool_name_problems(
        self, tools: Mapping[str, Collection[str]]
    ) -> tuple[SettingsProblem, ...]:
        """Report rules whose tool name differs from a server's tools only by case.

        `tools` has the rule names of the tools of each server, without the server's name.
        """
        checked = [
            (rule, check_server_tools(target.server, target.tools, tools[target.server]))
            for rule in self._rules
            if isinstance(target := rule.target, ServerTarget) and target.server in tools
        ]
        return tuple(_build_warning(rule, advice) for rule, advice in checked if advice is not None)

    def build_hidden_paths(self, cwd: Path | None) -> Callable[[Path], bool]:
        """Return a predicate for absolute paths that a search must omit.

        It caches what it reads of the file system: keep it no longer than one search.
        """
        config = self._config
        anchors = build_anchors(self.home, config.workspace, cwd)

        def is_blocked(names: Sequence[Path]) -> bool:
            inside = not config.block_reads_outside or anchors.contains_all(
                names, config.working_directories
            )
            return not inside or config.protected_paths.is_private(names)

        return HiddenPaths(config.deny_ask_rules.read_denies, anchors, is_blocked)

    def extend(self, allow_rules: tuple[RuleText, ...]) -> "Policy":
        """Return this policy with more allow rules; deny and ask rules still apply."""
        if not allow_rules:
            return self
        extended = self._extended_policies.get(allow_rules)
        if extended is None:
            added = _select_allow_rules(map(parse_rule, allow_rules))
            extended = copy.copy(self)
            extended._config = replace(
                self._config, allow_rules=self._config.allow_rules.with_rules(added)
            )
            extended._extended_policies = {}
            if len(self._extended_policies) >= _MAX_EXTENDED_POLICIES:
                self._extended_policies.clear()
            self._extended_policies[allow_rules] = extended
        return extended

    def suggest_allow_line(self, subject: Subject) -> str:
        """Return the settings line that would allow the call: `"allow": ["Bash(npm test:*)"]`."""
        return format_allow_line(collect_facts(subject, self.home))

    def suggest_rules(self, subject: Subject) -> tuple[str, ...]:
        """Return the rules of that line."""
        return suggest_rules(collect_facts(subject, self.home))

    def suggest_lasting_rules(
        self, subject: Subject, allows: Callable[[tuple[str, ...]], bool]
    ) -> tuple[str, ...]:
        """Return the rules that a lasting approval of this call stores, each of them needed.

        `allows` decides about the call with such rules added; if they do not suffice, there are
        none.
        """
        facts = collect_facts(subject, self.home)
        rules = suggest_lasting_rules(facts, self.home, self._config.working_directories)
        if not rules or len(rules) > _MAX_CANDIDATE_RULES or not allows(rules):
            return ()
        for rule in rules:
            others = tuple(other for other in rules if other != rule)
            if others and allows(others):
                rules = others
        return rules if len(rules) <= MAX_LASTING_RULES else ()

    def explain_insufficient_confirmation(self, subject: Subject, decision: Decision) -> str | None:
        """Return why the client's own confirmation is not enough here, or None if it is."""
        if not decision.undecided:
            return f"a question that is asked for ({decision.by.origin})"
        facts = collect_facts(subject, self.home)
        if facts.unparsed_reason is not None:
            return "a shell command that is not fully understood"
        writes = [*facts.writes, *facts.shell_writes]
        redirects = facts.shell_access.redirects if facts.shell_access else ()
        known = facts.unresolved_reason is None and all(access.known for access in redirects)
        if known and all(map(VoteCollector(self._config, facts).is_inside, writes)):
            return None
        return "a write outside the workspace"

    def _deny_instead_of_ask(self, vote: Vote) -> Vote:
        """Turn an ask into a deny if the mode or the settings permit no questions."""
        if vote.effect is not Effect.ASK or self._asks_denied_by is None:
            return vote
        reason = f"{vote.reason} (nobody is asked: {self._asks_denied_by})"
        return replace(vote, effect=Effect.DENY, reason=reason)


def _is_deny_or_ask(rule: ParsedRule) -> bool:
    return rule.effect is not Effect.ALLOW


def _select_allow_rules(rules: Iterable[ParsedRule]) -> list[PermissionRule]:
    return [
        rule for rule in rules if isinstance(rule, PermissionRule) and not _is_deny_or_ask(rule)
    ]


def _set_hook_tier(vote: Vote) -> Vote:
    """Put the vote of a hook into the tier of its effect, whatever tier it has."""
    return replace(vote, tier=TIER_BY_EFFECT[vote.effect])


def _find_rule_problems(rules: Iterable[ParsedRule]) -> Iterator[SettingsProblem]:
    for rule in rules:
        if isinstance(rule, MalformedRule):
            restricts = _is_deny_or_ask(rule)
            effect = "it stands for every call of its tool" if restricts else "it is ignored"
            if restricts and rule.target is None:
                effect = "it names no tool and is ignored"
            severity = Severity.ERROR if restricts else Severity.WARNING
            yield replace(_build_warning(rule, f"{rule.reason}; {effect}"), severity=severity)
        elif rule.advice is not None:
            yield _build_warning(rule, rule.advice)


def _build_warning(rule: ParsedRule, advice: str) -> SettingsProblem:
    key = f"permissions.{rule.effect.name.lower()}"
    message = f"{rule.text.text!r}: {advice}"
    return SettingsProblem(Severity.WARNING, rule.text.file, key, message, rule.text.line)


class LazyHiddenPaths:
    """The hidden paths of one call, computed when a tool first asks for one."""

    def __init__(self, policy: Policy, cwd: Path | None) -> None:
        self._policy = policy
        self._cwd = cwd
        self._hidden_paths: Callable[[Path], bool] | None = None

    def __call__(self, path: Path) -> bool:
        if self._hidden_paths is None:
            self._hidden_paths = self._policy.build_hidden_paths(self._cwd)
        return self._hidden_paths(path)
