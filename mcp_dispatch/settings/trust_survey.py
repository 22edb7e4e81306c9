"""What a workspace's file asks for beyond tightening: every entry, with its place in the file."""

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.env_names import refused_to_workspaces
from mcp_dispatch.settings.parse import LayerFile, RuleText

# These close: they hold in any file that says so.
TIGHTENING: JsonObject = {
    "blockReadsOutsideWorkingDirectories": True,
    "blockWritesOutsideWorkingDirectories": True,
    "disableBypassPermissionsMode": "disable",
}
# What a workspace may choose of ours. Not: where we listen, what is recorded, who is asked.
_DISPATCH = frozenset(
    {"naming", "tools", "toolSearch", "concurrency", "approvals", "results", "ruleTests"}
)
# Lists of servers that do not run: an entry of any file counts.
_CLOSING_LISTS = ("disabledMcpjsonServers", "deniedMcpServers")
_MODES = frozenset({"default", "manual", "acceptEdits", "plan", "dontAsk"})

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a file. Two are the same where file, key and value are, on whatever line."""

    file: Path
    key: str
    value: Json = field(compare=False)
    line: int | None = field(default=None, compare=False)
    text: str = ""
    """The value as canonical JSON."""

    @staticmethod
    def of(file: Path, key: str, value: Json, line: int | None = None) -> "Entry":
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        return Entry(file, key, value, line, text)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An entry that no workspace can have, trusted or not."""

    entry: Entry
    reason: str


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything in a workspace's files that matters to trust.

    `guards` close something: taking one away opens it. A hook is a grant and a guard.
    """

    grants: tuple[Entry, ...] = ()
    guards: tuple[Entry, ...] = ()
    refused: tuple[Refusal, ...] = ()

    def __add__(self, other: "Survey") -> "Survey":
        return Survey(
            self.grants + other.grants, self.guards + other.guards, self.refused + other.refused
        )


def survey(files: Iterable[LayerFile]) -> Survey:
    """What the files of a workspace ask for, and what they close."""
    return sum(map(_of_file, files), Survey())


def gated(file: LayerFile, granted: Container[Entry]) -> LayerFile:
    """The file with what it closes and, of what it asks for, only what is granted.

    It is built up from nothing: a key that nobody thought of is not in it.
    """
    permissions = _object(file.values, "permissions")
    closing = {key: on for key, on in TIGHTENING.items() if permissions.get(key) == on}
    values: JsonObject = {"permissions": closing}
    values |= {key: file.values[key] for key in _CLOSING_LISTS if key in file.values}
    for steps, entry in _settings(file):
        if entry in granted and _reason(steps, entry) is None:
            _put(values, steps, entry.value)
    rules = tuple(
        rule for rule in file.rules if rule.effect is not Effect.ALLOW or _entry_of(rule) in granted
    )
    return replace(file, values=values, rules=rules)


def _of_file(file: LayerFile) -> Survey:
    asked = list(_settings(file))
    reasons = [(steps, entry, _reason(steps, entry)) for steps, entry in asked]
    allowing = [_entry_of(rule) for rule in file.rules if rule.effect is Effect.ALLOW]
    return Survey(
        grants=(*allowing, *(entry for _, entry, reason in reasons if reason is None)),
        guards=tuple(_guards(file, asked)),
        refused=tuple(Refusal(entry, reason) for _, entry, reason in reasons if reason),
    )


def _guards(file: LayerFile, asked: Sequence[tuple[Steps, Entry]]) -> Iterator[Entry]:
    for rule in file.rules:
        if rule.effect is not Effect.ALLOW:
            yield _entry_of(rule)
    permissions = _object(file.values, "permissions")
    for key, on in TIGHTENING.items():
        if permissions.get(key) == on:
            yield Entry.of(file.layer.path, f"permissions.{key}", on)
    for key in _CLOSING_LISTS:
        for value in cast("list[Json]", file.values.get(key, [])):
            yield Entry.of(file.layer.path, key, value)
    yield from (entry for steps, entry in asked if steps[0] == "hooks")


def _settings(file: LayerFile) -> Iterator[tuple[Steps, Entry]]:
    """Everything but rules and what only closes, cut into pieces that stand for themselves."""
    for steps, value in _pieces(file.values):
        key = ".".join(step for step in steps if isinstance(step, str))
        yield steps, Entry.of(file.layer.path, key, value, file.lines.get(steps))


def _pieces(values: JsonObject) -> Iterator[tuple[Steps, Json]]:
    permissions = _object(values, "permissions")
    if (mode := permissions.get("defaultMode")) is not None:
        yield ("permissions", "defaultMode"), mode
    if permissions.get("denyInsteadOfPrompting") is True:
        yield ("permissions", "denyInsteadOfPrompting"), True
    directories = permissions.get("additionalDirectories", [])
    for index, directory in enumerate(cast("list[Json]", directories)):
        yield ("permissions", "additionalDirectories", index), directory
    for event, groups in _object(values, "hooks").items():
        for index, group in enumerate(groups if isinstance(groups, list) else ()):
            yield ("hooks", event, index), group
    for key in ("env", "mcpServers", "dispatch"):
        for name, value in _object(values, key).items():
            yield (key, name), value
    if (off := values.get("disableAllHooks")) is not None:
        yield ("disableAllHooks",), off
    if (most := values.get("bashOutputMaxChars")) is not None:
        yield ("bashOutputMaxChars",), most


def _reason(steps: Steps, entry: Entry) -> str | None:
    """Why a workspace can never have this; None where trust decides."""
    match steps:
        case ("permissions", "defaultMode") if entry.value not in _MODES:
            return "a workspace cannot choose this mode; use --permission-mode"
        case ("permissions", "denyInsteadOfPrompting"):
            return "a workspace cannot silence questions; set it in a file of your own"
        case ("env", str(name)) if refused_to_workspaces(name):
            return "a workspace cannot set this variable; set it in a file of your own"
        case ("dispatch", str(name)) if name not in _DISPATCH:
            return "a workspace cannot set this; set it in a file of your own"
        case _:
            return None


def _entry_of(rule: RuleText) -> Entry:
    return Entry.of(rule.file, f"permissions.{rule.effect.name.lower()}", rule.text, rule.line)


def _object(values: JsonObject, key: str) -> JsonObject:
    value = values.get(key)
    return value if isinstance(value, dict) else {}


def _put(values: JsonObject, steps: Steps, value: Json) -> None:
    """An entry of a list goes to its end."""
    *path, last = (step for step in steps if isinstance(step, str))
    holder = values
    for step in path:
        holder = cast(JsonObject, holder.setdefault(step, {}))
    if isinstance(steps[-1], int):
        cast("list[Json]", holder.setdefault(last, [])).append(value)
    else:
        holder[last] = value
