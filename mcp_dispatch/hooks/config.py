"""Parses the `hooks` objects of settings files into a `HookConfig`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcp_dispatch.hooks.actions import Action
from mcp_dispatch.hooks.config_models import parse_action
from mcp_dispatch.hooks.events import (
    EVENTS_WITHOUT_MATCHER,
    SINGLE_CALL_EVENTS,
    UNSUPPORTED_EVENT_NAMES,
    HookEventName,
)
from mcp_dispatch.hooks.matcher import (
    AllMatcher,
    InvalidMatcher,
    Matcher,
    MatchResult,
    parse_matcher,
)
from mcp_dispatch.model.decision import Origin
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.problems import ProblemReporter, SettingsProblem, describe_value

_GROUP_KEYS: Final = frozenset({"matcher", "hooks"})

ConditionCheck = Callable[[str], str | None]
"""Returns the problem of the rule in an `if`, or None if the rule can be parsed."""


def _accept_condition(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class HookSource:
    """The value of `hooks` in one settings file."""

    raw: Json
    file: Path


@dataclass(frozen=True, slots=True)
class Hook:
    event: HookEventName
    matcher: Matcher
    action: Action
    file: Path

    @property
    def origin(self) -> Origin:
        return Origin(str(self.file), rule=self.action.label)


@dataclass(frozen=True, slots=True)
class MatchedHook:
    """A hook that runs for a call. Its allow counts only if `sure`: matcher and `if` match for certain."""

    hook: Hook
    sure: bool


@dataclass(frozen=True, slots=True)
class HookConfig:
    """All hooks, in configuration order."""

    hooks: tuple[Hook, ...] = ()

    def filter_by_event(self, event: HookEventName) -> "HookConfig":
        """Return the hooks of one event."""
        return HookConfig(tuple(hook for hook in self.hooks if hook.event is event))

    def find_matching(self, event: HookEventName, subject: str) -> tuple[MatchedHook, ...]:
        """Return the hooks whose matcher accepts `subject`: a tool, a server or a session source.

        An action that is configured several times runs once.
        """
        found: dict[Action, MatchedHook] = {}
        for hook in self.hooks:
            match_result = (
                MatchResult.NO if hook.event is not event else hook.matcher.match(subject)
            )
            if match_result is MatchResult.NO:
                continue
            sure = match_result is MatchResult.YES
            previous = found.get(hook.action)
            if previous is None or (sure and not previous.sure):
                found[hook.action] = MatchedHook(hook, sure)
        return tuple(found.values())


def parse_hooks(
    sources: Sequence[HookSource], check_condition: ConditionCheck = _accept_condition
) -> tuple[HookConfig, tuple[SettingsProblem, ...]]:
    """Return the hooks of all files in the given order, and a problem for each invalid entry.

    A hook is skipped only if it cannot run. With an invalid option it runs without that option,
    because skipping a hook that guards a tool would leave the tool unguarded.
    """
    problems: list[SettingsProblem] = []
    hooks: list[Hook] = []
    for source in sources:
        report = ProblemReporter(source.file, "hooks", problems)
        hooks.extend(_parse_file(source, check_condition, report))
    return HookConfig(tuple(hooks)), tuple(problems)


def _parse_file(
    source: HookSource, check_condition: ConditionCheck, report: ProblemReporter
) -> Iterable[Hook]:
    if not isinstance(source.raw, dict):
        report.report_unexpected("an object of events", source.raw)
        return
    for name, groups in source.raw.items():
        inner = report.enter_key(name)
        event = _find_event(name, inner)
        if event is None:
            continue
        if not isinstance(groups, list):
            inner.report_unexpected('a list of {"matcher", "hooks"} objects', groups)
            continue
        for index, group in enumerate(groups):
            yield from _parse_group(
                event, group, source.file, check_condition, inner.enter_item(index)
            )


def _find_event(name: str, report: ProblemReporter) -> HookEventName | None:
    for event in HookEventName:
        if event.value == name:
            return event
    if name in UNSUPPORTED_EVENT_NAMES:
        report.report("never happens in a server of tools; its hooks do not run")
    else:
        report.report("is not a hook event; its hooks do not run")
    return None


def _parse_group(
    event: HookEventName,
    group: Json,
    file: Path,
    check_condition: ConditionCheck,
    report: ProblemReporter,
) -> Iterable[Hook]:
    if not isinstance(group, dict):
        report.report_unexpected('an object with "hooks"', group)
        return
    for key in [key for key in group if key not in _GROUP_KEYS]:
        report.enter_key(key).report("has no effect here; options of a hook stand beside its type")
    entries = group.get("hooks")
    if not isinstance(entries, list):
        report.enter_key("hooks").report_unexpected("a list of hooks", entries)
        return
    matcher = _parse_group_matcher(event, group, report.enter_key("matcher"))
    for index, entry in enumerate(entries):
        inner = report.enter_key("hooks").enter_item(index)
        action = parse_action(entry, inner)
        if action is not None and _can_apply(event, action, check_condition, inner.enter_key("if")):
            yield Hook(event, matcher, action, file)


def _parse_group_matcher(
    event: HookEventName, group: JsonObject, report: ProblemReporter
) -> Matcher:
    if "matcher" not in group:
        return AllMatcher()
    text = group["matcher"]
    if event in EVENTS_WITHOUT_MATCHER:
        if text not in ("", "*"):
            report.report(f"{event.value} has no matcher; it is ignored")
        return AllMatcher()
    matcher = parse_matcher(text) if isinstance(text, str) else InvalidMatcher()
    if isinstance(matcher, InvalidMatcher):
        report.report(
            f"expected tool names or a regular expression, got {describe_value(text)}; its hooks run "
            "for every tool, and what they allow does not count"
        )
    return matcher


def _can_apply(
    event: HookEventName, action: Action, check_condition: ConditionCheck, report: ProblemReporter
) -> bool:
    """Report problems of `if`. Return False if the event has no call that a rule could match."""
    if action.condition is None:
        return True
    if event not in SINGLE_CALL_EVENTS:
        report.report(f"{event.value} is not about one call of a tool; the hook does not run")
        return False
    if problem := check_condition(action.condition):
        report.report(
            f"{describe_value(action.condition)}: {problem}; the hook runs whenever its matcher fits, "
            "and what it allows does not count"
        )
    return True
