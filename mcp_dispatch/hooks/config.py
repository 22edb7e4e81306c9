"""Which hooks there are: the `hooks` object of settings files, read and checked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from mcp_dispatch.hooks.entries import Command, read_command
from mcp_dispatch.hooks.events import NEVER_HERE, NOT_YET, Event
from mcp_dispatch.hooks.matcher import EveryTool, Fit, Matcher, Unreadable, read_matcher
from mcp_dispatch.hooks.report import Report, value_shown
from mcp_dispatch.model.decision import Origin
from mcp_dispatch.model.json import Json, JsonObject

_GROUP_KEYS: Final = frozenset({"matcher", "hooks"})
_TYPES_NOT_YET: Final = frozenset({"http", "mcp_tool"})
_TYPES_FOR_A_MODEL: Final = frozenset({"prompt", "agent"})


@dataclass(frozen=True, slots=True)
class HookSource:
    """The value of `hooks` in one settings file."""

    raw: Json
    file: Path


@dataclass(frozen=True, slots=True)
class Hook:
    event: Event
    matcher: Matcher
    action: Command
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

    def matching(self, event: Event, tool: str) -> tuple[Matched, ...]:
        """The hooks to run for this tool; the same action named several times runs once."""
        found: dict[Command, Matched] = {}
        for hook in self.hooks:
            fit = Fit.NO if hook.event is not event else hook.matcher.fits(tool)
            if fit is Fit.NO:
                continue
            sure = fit is Fit.YES and hook.action.condition is None
            known = found.get(hook.action)
            if known is None or (sure and not known.sure):
                found[hook.action] = Matched(hook, sure)
        return tuple(found.values())


def parse_hooks(sources: Sequence[HookSource]) -> tuple[HookConfig, tuple[str, ...]]:
    """The hooks of all files in the order given, and what was skipped or read differently.

    Only what cannot be run is skipped. A hook with one bad option runs without that option: a
    guard that is left out guards nothing.
    """
    problems: list[str] = []
    hooks: list[Hook] = []
    for source in sources:
        report = Report(str(source.file), "hooks", problems)
        hooks.extend(_of_file(source, report))
    return HookConfig(tuple(hooks)), tuple(problems)


def _of_file(source: HookSource, report: Report) -> Iterable[Hook]:
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
            yield from _of_group(event, group, source.file, inner.item(index))


def _event(name: str, report: Report) -> Event | None:
    for event in Event:
        if event.value == name:
            return event
    if name in NOT_YET:
        report.say("is not supported yet; its hooks do not run")
    elif name in NEVER_HERE:
        report.say("never happens in a server of tools; its hooks do not run")
    else:
        report.say("is not a hook event; its hooks do not run")
    return None


def _of_group(event: Event, group: Json, file: Path, report: Report) -> Iterable[Hook]:
    if not isinstance(group, dict):
        report.expected('an object with "hooks"', group)
        return
    for key in [key for key in group if key not in _GROUP_KEYS]:
        report.at(key).say("has no effect here; options of a hook stand beside its command")
    entries = group.get("hooks")
    if not isinstance(entries, list):
        report.at("hooks").expected("a list of hooks", entries)
        return
    matcher = _matcher(group, report.at("matcher"))
    for index, entry in enumerate(entries):
        action = _action(entry, report.at("hooks").item(index))
        if action is not None:
            yield Hook(event, matcher, action, file)


def _matcher(group: JsonObject, report: Report) -> Matcher:
    if "matcher" not in group:
        return EveryTool()
    text = group["matcher"]
    matcher = read_matcher(text) if isinstance(text, str) else Unreadable()
    if isinstance(matcher, Unreadable):
        report.say(
            f"expected tool names or a regular expression, got {value_shown(text)}; its hooks run "
            "for every tool, and what they allow does not count"
        )
    return matcher


def _action(entry: Json, report: Report) -> Command | None:
    if not isinstance(entry, dict):
        report.expected('an object with "type" and "command"', entry)
        return None
    kind = entry.get("type")
    if kind == "command":
        return read_command(entry, report)
    if isinstance(kind, str) and (why := _unsupported(kind)):
        report.at("type").say(f'"{kind}" {why}; the hook does not run')
    else:
        report.at("type").expected('"command"', kind)
    return None


def _unsupported(kind: str) -> Literal["is not supported yet", "needs a model", ""]:
    if kind in _TYPES_NOT_YET:
        return "is not supported yet"
    return "needs a model" if kind in _TYPES_FOR_A_MODEL else ""
