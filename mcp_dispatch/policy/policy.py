"""The decision: every source casts its votes, and the first tier that speaks decides."""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mcp_dispatch.fs.resolve import PathAnchors, resolve_or_keep
from mcp_dispatch.model.decision import Decision, Effect, Origin, Tier, Vote, decide
from mcp_dispatch.model.tools import ToolAsk
from mcp_dispatch.policy.facts import collect_facts
from mcp_dispatch.policy.paths.hidden import HiddenPaths
from mcp_dispatch.policy.paths.protected import ProtectedPaths
from mcp_dispatch.policy.rules.allow import AllowRules
from mcp_dispatch.policy.rules.deny_ask import DenyAskRules, ParsedRule, explain_incomplete_parse
from mcp_dispatch.policy.rules.lint import check_server_name, check_server_tools
from mcp_dispatch.policy.rules.model import MalformedRule, PermissionRule, ServerTarget
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
    """Rules, mode and protected paths of one server, over the directories it works in.

    `own` are our configuration and state directories, `protected_files` further files that nobody
    may write, there or not. `problems` names the rules that cannot be applied as they are written.
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
            _DENY_INSTEAD_OF_PROMPTING if settings.deny_instead_of_prompting else None
        )
        if mode is PermissionMode.DONT_ASK:
            self._asks_denied_by = "dontAsk"
        self._rules = [parse_rule(text) for text in settings.rules]
        workspace = tuple(workspace_directories)
        start = workspace[0] if workspace else Path("/")
        added = (start / path for path in settings.additional_directories)
        files = (*settings.files, *settings.hook_scripts, *protected_files)
        self._config = PolicyConfig(
            mode,
            self.home,
            workspace,
            tuple(dict.fromkeys((*workspace, *added))),
            DenyAskRules([rule for rule in self._rules if _is_deny_or_ask(rule)]),
            AllowRules(
                [
                    rule
                    for rule in self._rules
                    if isinstance(rule, PermissionRule) and _is_allow(rule)
                ]
            ),
            ProtectedPaths(
                [end for path in own_directories for end in resolve_or_keep(path)],
                [end for path in files for end in resolve_or_keep(path)],
            ),
            settings.block_reads_outside,
            settings.block_writes_outside,
        )
        self.problems = tuple(_find_rule_problems(self._rules))
        self._extended_policies: dict[tuple[RuleText, ...], Policy] = {}

    @property
    def working_directories(self) -> tuple[Path, ...]:
        """The workspace and what settings add to it."""
        return self._config.working_directories

    @property
    def hooks_answer_before_deny(self) -> bool:
        """Whether hooks may answer what nobody else is asked."""
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
        """What everything but hooks and the tool itself says; the last is always the soft ask."""
        return VoteCollector(self._config, collect_facts(subject, self.home)).collect()

    def find_tool_deny(self, rule_name: str, exposed_name: str, server: str | None) -> Vote | None:
        """The deny that takes the whole tool away: it is neither listed nor found."""
        subject = Subject(rule_name, exposed_name, server, {}, {}, None)
        rule = self._config.deny_ask_rules.find_tool_deny(subject)
        return None if rule is None else build_rule_vote(rule)

    def find_server_deny(self, server: str) -> Vote | None:
        """The deny of all tools of a server, which closes its resources and prompts as well."""
        rule = self._config.deny_ask_rules.find_server_deny(server)
        return None if rule is None else build_rule_vote(rule)

    def find_server_name_problems(self, servers: Collection[str]) -> tuple[SettingsProblem, ...]:
        """Rules that miss one of these servers by the case of a letter or by a `-`."""
        named = [
            (rule, check_server_name(rule.target.server, servers))
            for rule in self._rules
            if isinstance(rule.target, ServerTarget)
        ]
        return tuple(_build_warning(rule, advice) for rule, advice in named if advice is not None)

    def find_tool_name_problems(
        self, tools: Mapping[str, Collection[str]]
    ) -> tuple[SettingsProblem, ...]:
        """Rules that miss the tools of a server by the case of a letter; `tools` has the names that
        rules know the tools of each server by, without the server's."""
        named = [
            (
                rule,
                check_server_tools(
                    rule.target.server, rule.target.tools, tools[rule.target.server]
                ),
            )
            for rule in self._rules
            if isinstance(rule.target, ServerTarget) and rule.target.server in tools
        ]
        return tuple(_build_warning(rule, advice) for rule, advice in named if advice is not None)

    def is_path_hidden(self, path: Path, cwd: Path | None) -> bool:
        """Whether a search leaves out this absolute path. For many paths, use `hiding`."""
        return self.build_hidden_paths(cwd)(path)

    def build_hidden_paths(self, cwd: Path | None) -> Callable[[Path], bool]:
        """Answers `hides` for the paths of one search, quickly; not to be kept longer."""
        order = self._config
        here = (*order.workspace, *((cwd,) if cwd else ()))
        places = PathAnchors(self.home, tuple(dict.fromkeys(here)))

        def is_blocked(names: Sequence[Path]) -> bool:
            outside = order.block_reads_outside and not places.contains_all(
                names, order.working_directories
            )
            return outside or order.protected_paths.is_private(names)

        return HiddenPaths(order.deny_ask_rules.read_denies, places, is_blocked)

    def extend(self, allow_rules: tuple[RuleText, ...]) -> "Policy":
        """The same with these allow rules added: whatever denies or asks still does."""
        if not allow_rules:
            return self
        known = self._extended_policies.get(allow_rules)
        if known is None:
            rules = [parse_rule(text) for text in allow_rules if text.effect is Effect.ALLOW]
            added = [rule for rule in rules if isinstance(rule, PermissionRule)]
            known = copy.copy(self)
            known._config = replace(
                self._config, allow_rules=self._config.allow_rules.with_rules(added)
            )
            known._extended_policies = {}
            if len(self._extended_policies) >= _MAX_EXTENDED_POLICIES:
                self._extended_policies.clear()
            self._extended_policies[allow_rules] = known
        return known

    def suggest_allow_line(self, subject: Subject) -> str:
        """The line that would allow it, as in `"allow": ["Bash(npm test:*)"]`."""
        return format_allow_line(collect_facts(subject, self.home))

    def suggest_rules(self, subject: Subject) -> tuple[str, ...]:
        """The rules in that line."""
        return suggest_rules(collect_facts(subject, self.home))

    def suggest_lasting_rules(
        self, subject: Subject, allows: Callable[[tuple[str, ...]], bool]
    ) -> tuple[str, ...]:
        """The few rules that a lasting yes to this call sets down, none of them needless.

        `allows` judges the call with such rules added; there are none where they do not suffice.
        """
        evidence = collect_facts(subject, self.home)
        rules = suggest_lasting_rules(evidence, self.home, self._config.working_directories)
        if not rules or len(rules) > _MAX_CANDIDATE_RULES or not allows(rules):
            return ()
        for rule in rules:
            others = tuple(other for other in rules if other != rule)
            if others and allows(others):
                rules = others
        return rules if len(rules) <= MAX_LASTING_RULES else ()

    def explain_insufficient_confirmation(self, subject: Subject, decision: Decision) -> str | None:
        """Why a client's own confirmation does not settle this question; None where it may."""
        if not decision.undecided:
            return f"a question that is asked for ({decision.by.origin})"
        evidence = collect_facts(subject, self.home)
        if explain_incomplete_parse(evidence) is not None:
            return "a shell command that is not fully understood"
        written = [*evidence.writes, *evidence.shell_writes]
        redirects = evidence.shell_access.redirects if evidence.shell_access else ()
        known = evidence.unresolved_reason is None and all(touch.known for touch in redirects)
        if known and all(map(VoteCollector(self._config, evidence).is_inside, written)):
            return None
        return "a write outside the workspace"

    def _deny_instead_of_ask(self, vote: Vote) -> Vote:
        """Where nobody is to be asked, a question is a denial."""
        if vote.effect is not Effect.ASK or self._asks_denied_by is None:
            return vote
        reason = f"{vote.reason} (nobody is asked: {self._asks_denied_by})"
        return replace(vote, effect=Effect.DENY, reason=reason)


def _is_deny_or_ask(rule: ParsedRule) -> bool:
    return rule.effect is not Effect.ALLOW


def _is_allow(rule: ParsedRule) -> bool:
    return rule.effect is Effect.ALLOW


def _set_hook_tier(vote: Vote) -> Vote:
    """A hook is heard in the tier of its effect, whatever it claims."""
    return replace(vote, tier=TIER_BY_EFFECT[vote.effect])


def _find_rule_problems(rules: Iterable[ParsedRule]) -> Iterator[SettingsProblem]:
    for rule in rules:
        if isinstance(rule, MalformedRule):
            closes = _is_deny_or_ask(rule)
            fate = "it stands for every call of its tool" if closes else "it is ignored"
            if closes and rule.target is None:
                fate = "it names no tool and is ignored"
            severity = Severity.ERROR if closes else Severity.WARNING
            yield replace(_build_warning(rule, f"{rule.reason}; {fate}"), severity=severity)
        elif rule.advice is not None:
            yield _build_warning(rule, rule.advice)


def _build_warning(rule: ParsedRule, advice: str) -> SettingsProblem:
    key = f"permissions.{rule.effect.name.lower()}"
    message = f"{rule.text.text!r}: {advice}"
    return SettingsProblem(Severity.WARNING, rule.text.file, key, message, rule.text.line)


class LazyHiddenPaths:
    """Whether rules hide a file, for the length of one call."""

    def __init__(self, policy: Policy, cwd: Path | None) -> None:
        self._policy = policy
        self._cwd = cwd
        self._hidden_paths: Callable[[Path], bool] | None = None

    def __call__(self, path: Path) -> bool:
        if self._hidden_paths is None:
            self._hidden_paths = self._policy.build_hidden_paths(self._cwd)
        return self._hidden_paths(path)
