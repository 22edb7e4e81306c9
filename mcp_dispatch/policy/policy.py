"""The decision: every source casts its votes, and the first tier that speaks decides."""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mcp_dispatch.fs.resolve import Places, ends_of
from mcp_dispatch.model.decision import Decision, Effect, Origin, Tier, Vote, decide
from mcp_dispatch.model.tools import ToolAsk
from mcp_dispatch.policy.facts import gather
from mcp_dispatch.policy.paths.hidden import Hiding
from mcp_dispatch.policy.paths.protected import ProtectedPaths
from mcp_dispatch.policy.rules.allow import AllowRules
from mcp_dispatch.policy.rules.deny_ask import AnyRule, ClosedRules, not_understood
from mcp_dispatch.policy.rules.lint import about_server, about_tool
from mcp_dispatch.policy.rules.model import Malformed, Rule, ServerNamed
from mcp_dispatch.policy.rules.parse import parse_rule
from mcp_dispatch.policy.rules.suggest import MOST_RULES, allow_line, lasting_rules, suggested_rules
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.policy.votes import TIERS, Hearing, Order, vote_of
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.problems import Problem, Severity
from mcp_dispatch.settings.settings import RuleText, Settings

_DENY_UNASKED = "denyInsteadOfPrompting"
_MOST_CANDIDATES = 20
_MOST_EXTENSIONS = 64


class Policy:
    """Rules, mode and protected paths of one server, over the directories it works in.

    `own` are our configuration and state directories, `protected_files` further files that nobody
    may write, there or not. `problems` names the rules that cannot be applied as they are written.
    """

    def __init__(
        self,
        settings: Settings,
        workspace_directories: Sequence[Path],
        own: Sequence[Path],
        mode: PermissionMode,
        *,
        home: Path | None = None,
        protected_files: Sequence[Path] = (),
    ) -> None:
        self.mode = mode
        self.home = home or Path.home()
        self._quiet = _DENY_UNASKED if settings.deny_instead_of_prompting else None
        if mode is PermissionMode.DONT_ASK:
            self._quiet = "dontAsk"
        self._rules = [parse_rule(text) for text in settings.rules]
        workspace = tuple(workspace_directories)
        start = workspace[0] if workspace else Path("/")
        added = (start / path for path in settings.additional_directories)
        files = (*settings.files, *settings.hook_scripts, *protected_files)
        self._order = Order(
            mode,
            self.home,
            workspace,
            tuple(dict.fromkeys((*workspace, *added))),
            ClosedRules([rule for rule in self._rules if _closes(rule)]),
            AllowRules([rule for rule in self._rules if isinstance(rule, Rule) and _opens(rule)]),
            ProtectedPaths(
                [end for path in own for end in ends_of(path)],
                [end for path in files for end in ends_of(path)],
            ),
            settings.block_reads_outside,
            settings.block_writes_outside,
        )
        self.problems = tuple(_problems(self._rules))
        self._extended: dict[tuple[RuleText, ...], Policy] = {}

    @property
    def working_directories(self) -> tuple[Path, ...]:
        """The workspace and what settings add to it."""
        return self._order.working

    @property
    def hooks_before_silence(self) -> bool:
        """Whether hooks may answer what nobody else is asked."""
        return self._quiet == _DENY_UNASKED

    def judge(
        self,
        subject: Subject,
        *,
        hook_votes: Iterable[Vote] = (),
        tool_ask: ToolAsk | None = None,
    ) -> Decision:
        votes = [*map(_of_hook, hook_votes), *self.votes(subject)]
        if tool_ask is not None:
            origin = Origin(subject.rule_name)
            votes.append(Vote(Tier.TOOL_ASK, Effect.ASK, tool_ask.reason, origin))
        return decide(map(self._unasked, votes))

    def votes(self, subject: Subject) -> list[Vote]:
        """What everything but hooks and the tool itself says; the last is always the soft ask."""
        return Hearing(self._order, gather(subject, self.home)).votes()

    def is_hidden(self, rule_name: str, exposed_name: str, server: str | None) -> Vote | None:
        """The deny that takes the whole tool away: it is neither listed nor found."""
        subject = Subject(rule_name, exposed_name, server, {}, {}, None)
        rule = self._order.closed.taking_away(subject)
        return None if rule is None else vote_of(rule)

    def denies_server(self, server: str) -> Vote | None:
        """The deny of all tools of a server, which closes its resources and prompts as well."""
        rule = self._order.closed.closing_server(server)
        return None if rule is None else vote_of(rule)

    def problems_with(self, servers: Collection[str]) -> tuple[Problem, ...]:
        """Rules that miss one of these servers by the case of a letter or by a `-`."""
        named = [
            (rule, about_server(rule.target.server, servers))
            for rule in self._rules
            if isinstance(rule.target, ServerNamed)
        ]
        return tuple(_warning(rule, advice) for rule, advice in named if advice is not None)

    def problems_with_tools(self, tools: Mapping[str, Collection[str]]) -> tuple[Problem, ...]:
        """Rules that miss the tools of a server by the case of a letter; `tools` has the names that
        rules know the tools of each server by, without the server's."""
        named = [
            (rule, about_tool(rule.target.server, rule.target.tools, tools[rule.target.server]))
            for rule in self._rules
            if isinstance(rule.target, ServerNamed) and rule.target.server in tools
        ]
        return tuple(_warning(rule, advice) for rule, advice in named if advice is not None)

    def hides(self, path: Path, cwd: Path | None) -> bool:
        """Whether a search leaves out this absolute path. For many paths, use `hiding`."""
        return self.hiding(cwd)(path)

    def hiding(self, cwd: Path | None) -> Callable[[Path], bool]:
        """Answers `hides` for the paths of one search, quickly; not to be kept longer."""
        order = self._order
        here = (*order.workspace, *((cwd,) if cwd else ()))
        places = Places(self.home, tuple(dict.fromkeys(here)))

        def closed(names: Sequence[Path]) -> bool:
            outside = order.block_reads_outside and not places.all_inside(names, order.working)
            return outside or order.protected.private(names)

        return Hiding(order.closed.read_denies, places, closed)

    def extended(self, allowed: tuple[RuleText, ...]) -> "Policy":
        """The same with these allow rules added: whatever denies or asks still does."""
        if not allowed:
            return self
        known = self._extended.get(allowed)
        if known is None:
            rules = [parse_rule(text) for text in allowed if text.effect is Effect.ALLOW]
            added = [rule for rule in rules if isinstance(rule, Rule)]
            known = copy.copy(self)
            known._order = replace(self._order, allowing=self._order.allowing.plus(added))
            known._extended = {}
            if len(self._extended) >= _MOST_EXTENSIONS:
                self._extended.clear()
            self._extended[allowed] = known
        return known

    def suggestion(self, subject: Subject) -> str:
        """The line that would allow it, as in `"allow": ["Bash(npm test:*)"]`."""
        return allow_line(gather(subject, self.home))

    def suggested(self, subject: Subject) -> tuple[str, ...]:
        """The rules in that line."""
        return suggested_rules(gather(subject, self.home))

    def lasting(
        self, subject: Subject, allows: Callable[[tuple[str, ...]], bool]
    ) -> tuple[str, ...]:
        """The few rules that a lasting yes to this call sets down, none of them needless.

        `allows` judges the call with such rules added; there are none where they do not suffice.
        """
        evidence = gather(subject, self.home)
        rules = lasting_rules(evidence, self.home, self._order.working)
        if not rules or len(rules) > _MOST_CANDIDATES or not allows(rules):
            return ()
        for rule in rules:
            others = tuple(other for other in rules if other != rule)
            if others and allows(others):
                rules = others
        return rules if len(rules) <= MOST_RULES else ()

    def uncovered_by_client(self, subject: Subject, decision: Decision) -> str | None:
        """Why a client's own confirmation does not settle this question; None where it may."""
        if not decision.soft:
            return f"a question that is asked for ({decision.by.origin})"
        evidence = gather(subject, self.home)
        if not_understood(evidence) is not None:
            return "a shell command that is not fully understood"
        written = [*evidence.writes, *evidence.shell_writes]
        redirects = evidence.shell.redirects if evidence.shell else ()
        known = evidence.unresolved is None and all(touch.known for touch in redirects)
        if known and all(map(Hearing(self._order, evidence).inside, written)):
            return None
        return "a write outside the workspace"

    def _unasked(self, vote: Vote) -> Vote:
        """Where nobody is to be asked, a question is a denial."""
        if vote.effect is not Effect.ASK or self._quiet is None:
            return vote
        reason = f"{vote.reason} (nobody is asked: {self._quiet})"
        return replace(vote, effect=Effect.DENY, reason=reason)


def _closes(rule: AnyRule) -> bool:
    return rule.effect is not Effect.ALLOW


def _opens(rule: AnyRule) -> bool:
    return rule.effect is Effect.ALLOW


def _of_hook(vote: Vote) -> Vote:
    """A hook is heard in the tier of its effect, whatever it claims."""
    return replace(vote, tier=TIERS[vote.effect])


def _problems(rules: Iterable[AnyRule]) -> Iterator[Problem]:
    for rule in rules:
        if isinstance(rule, Malformed):
            closes = _closes(rule)
            fate = "it stands for every call of its tool" if closes else "it is ignored"
            if closes and rule.target is None:
                fate = "it names no tool and is ignored"
            severity = Severity.ERROR if closes else Severity.WARNING
            yield replace(_warning(rule, f"{rule.reason}; {fate}"), severity=severity)
        elif rule.advice is not None:
            yield _warning(rule, rule.advice)


def _warning(rule: AnyRule, advice: str) -> Problem:
    key = f"permissions.{rule.effect.name.lower()}"
    message = f"{rule.text.text!r}: {advice}"
    return Problem(Severity.WARNING, rule.text.file, key, message, rule.text.line)


class Hidden:
    """Whether rules hide a file, for the length of one call."""

    def __init__(self, policy: Policy, cwd: Path | None) -> None:
        self._policy = policy
        self._cwd = cwd
        self._answer: Callable[[Path], bool] | None = None

    def __call__(self, path: Path) -> bool:
        if self._answer is None:
            self._answer = self._policy.hiding(self._cwd)
        return self._answer(path)
