"""Which hooks there are: the `hooks` object of settings files, read and checked."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcp_dispatch.hooks.actions import Action
from mcp_dispatch.hooks.config_models import read_action
from mcp_dispatch.hooks.events import NEVER_HERE, OF_ONE_CALL, WITHOUT_MATCHER, Event
from mcp_dispatch.hooks.matcher import EveryTool, Fit, Matcher, Unreadable, read_matcher
from mcp_dispatch.model.decision import Origin
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.problems import Report, value_shown

_GROUP_KEYS: Final = frozenset({"matcher", "hooks"})

Fault = Callable[[str], str | None]
"""What is wrong with the rule in an `if`; None where it can be read."""


def _no_fault(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class HookSource:
    """The value of `hooks` in one settings file."""

    raw: Json
    file: Path


@dataclass(frozen=True, slots=True)
class Hook:
    event: Event
    matcher: Matcher
    action: Action
    file: Path

    @property
    def origin(self) -> Origin:
        return Origin(str(self.file), rule=self.action.label)


@dataclass(frozen=True, slots=True)
class Matched:
    """A hook that runs for a call. What it allows counts only if it is surely meant for it."""

    hook: Hook
    sure: bool


@dataclass(frozen=True, slots=True)
class HookConfig:
    """All hooks, in configuration order."""

    hooks: tuple[Hook, ...] = ()

    def only(self, event: Event) -> "HookConfig":
        """Those that wait for one event."""
        return HookConfig(tuple(hook for hook in self.hooks if hook.event is event))

    def matching(self, event: Event, about: str) -> tuple[Matched, ...]:
        """The hooks to run for this tool, server or occasion, as far as matchers say; the same
        action named several times runs once."""
        found: dict[Action, Matched] = {}
        for hook in self.hooks:
            fit = Fit.NO if hook.event is not event else hook.matcher.fits(about)
            if fit is Fit.NO:
                continue
            sure = fit is Fit.YES
            known = found.get(hook.action)
            if known is None or (sure and not known.sure):
                found[hook.action] = Matched(hook, sure)
        return tuple(found.values())


def parse_hooks(
    sources: Sequence[HookSource], fault: Fault = _no_fault
) -> tuple[HookConfig, tuple[str, ...]]:
    """The hooks of all files in the order given, and what was skipped or read differently.

    Only what cannot be run is skipped. A hook with one bad option runs without that option: a
    guard that is left out guards nothing.
    """
    problems: list[str] = []
    hooks: list[Hook] = []
    for source in sources:
        report = Report(str(source.file), "hooks", problems)
        hooks.extend(_of_file(source, fault, report))
    return HookConfig(tuple(hooks)), tuple(problems)


def _of_file(source: HookSource, fault: Fault, report: Report) -> Iterable[Hook]:
    if not isinstance(source.raw, dict):
        report.expected("an object of events", source.raw)
        return
    for name, groups in source.raw.items():
        inner = report.at(name)
        event = _event(name, inner)
        if event is None:
            continue
        if not isinstance(groups, list):
            inner.expected('a list of {"matcher", "hooks"} objects', groups)
            continue
        for index, group in enumerate(groups):
            yield from _of_group(event, group, source.file, fault, inner.item(index))


def _event(name: str, report: Report) -> Event | None:
    for event in Event:
        if event.value == name:
            return event
    if name in NEVER_HERE:
        report.say("never happens in a server of tools; its hooks do not run")
    else:
        report.say("is not a hook event; its hooks do not run")
    return None


def _of_group(
    event: Event, group: Json, file: Path, fault: Fault, report: Report
) -> Iterable[Hook]:
    if not isinstance(group, dict):
        report.expected('an object with "hooks"', group)
        return
    for key in [key for key in group if key not in _GROUP_KEYS]:
        report.at(key).say("has no effect here; options of a hook stand beside its type")
    entries = group.get("hooks")
    if not isinstance(entries, list):
        report.at("hooks").expected("a list of hooks", entries)
        return
    matcher = _matcher(event, group, report.at("matcher"))
    for index, entry in enumerate(entries):
        inner = report.at("hooks").item(index)
        action = read_action(entry, inner)
        if action is not None and _applicable(event, action, fault, inner.at("if")):
            yield Hook(event, matcher, action, file)


def _matcher(event: Event, group: JsonObject, report: Report) -> Matcher:
    if "matcher" not in group:
        return EveryTool()
    text = group["matcher"]
    if event in WITHOUT_MATCHER:
        if text not in ("", "*"):
            report.say(f"{event.value} has no matcher; it is ignored")
        return EveryTool()
    matcher = read_matcher(text) if isinstance(text, str) else Unreadable()
    if isinstance(matcher, Unreadable):
        report.say(
            f"expected tool names or a regular expression, got {value_shown(text)}; its hooks run "
            "for every tool, and what they allow does not count"
        )
    return matcher


def _applicable(event: Event, action: Action, fault: Fault, report: Report) -> bool:
    """A rule says something about one call only; elsewhere its hook never runs."""
    if action.condition is None:
        return True
    if event not in OF_ONE_CALL:
        report.say(f"{event.value} is not about one call of a tool; the hook does not run")
        return False
    if why := fault(action.condition):
        report.say(
            f"{value_shown(action.condition)}: {why}; the hook runs whenever its matcher fits, "
            "and what it allows does not count"
        )
    return True
