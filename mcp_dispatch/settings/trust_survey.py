"""Finds the entries of a workspace's files that need trust, and those that tighten."""

import json
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.env_names import is_refused_to_workspaces
from mcp_dispatch.settings.parse import LayerFile, RuleText

# These only tighten, so they apply from any file.
TIGHTENING: JsonObject = {
    "blockReadsOutsideWorkingDirectories": True,
    "blockWritesOutsideWorkingDirectories": True,
    "disableBypassPermissionsMode": "disable",
}
# `dispatch` keys that a workspace may set. Not: where the server listens, what is recorded, and who
# approves.
_WORKSPACE_DISPATCH_KEYS = frozenset(
    {"naming", "tools", "toolSearch", "concurrency", "approvals", "results", "ruleTests"}
)
# Lists of servers that must not run: entries of any file apply.
_CLOSING_LISTS = ("disabledMcpjsonServers", "deniedMcpServers")
_WORKSPACE_MODES = frozenset({"default", "manual", "acceptEdits", "plan", "dontAsk"})

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class TrustEntry:
    """One entry of a file. Entries are equal if file, key and value are; the line does not matter."""

    file: Path
    key: str
    value: Json = field(compare=False)
    line: int | None = field(default=None, compare=False)
    text: str = ""
    """The value as canonical JSON."""

    @staticmethod
    def create(file: Path, key: str, value: Json, line: int | None = None) -> "TrustEntry":
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        return TrustEntry(file, key, value, line, text)


@dataclass(frozen=True, slots=True)
class RefusedEntry:
    """An entry that no workspace may set, trusted or not."""

    entry: TrustEntry
    reason: str


@dataclass(frozen=True, slots=True)
class TrustSurvey:
    """All entries of a workspace's files that are relevant to trust.

    `guards` restrict something: removing one allows more. A hook is both a grant and a guard.
    """

    grants: tuple[TrustEntry, ...] = ()
    guards: tuple[TrustEntry, ...] = ()
    refused: tuple[RefusedEntry, ...] = ()

    def __add__(self, other: "TrustSurvey") -> "TrustSurvey":
        return TrustSurvey(
            self.grants + other.grants, self.guards + other.guards, self.refused + other.refused
        )


def inspect_files(files: Iterable[LayerFile]) -> TrustSurvey:
    """Return what the files of a workspace request and what they restrict."""
    return sum(map(_inspect_file, files), TrustSurvey())


def filter_granted(file: LayerFile, granted: Container[TrustEntry]) -> LayerFile:
    """Return the file with its restrictions and only those requests that are granted.

    The result is built from nothing, so that an unforeseen key is left out.
    """
    permissions = _get_object(file.values, "permissions")
    closing = {key: on for key, on in TIGHTENING.items() if permissions.get(key) == on}
    values: JsonObject = {"permissions": closing}
    values |= {key: file.values[key] for key in _CLOSING_LISTS if key in file.values}
    for steps, entry in _iter_entries(file):
        if entry in granted and _find_refusal_reason(steps, entry) is None:
            _insert_value(values, steps, entry.value)
    rules = tuple(
        rule for rule in file.rules if rule.effect is not Effect.ALLOW or _to_entry(rule) in granted
    )
    return replace(file, values=values, rules=rules)


def _inspect_file(file: LayerFile) -> TrustSurvey:
    asked = list(_iter_entries(file))
    reasons = [(steps, entry, _find_refusal_reason(steps, entry)) for steps, entry in asked]
    allowing = [_to_entry(rule) for rule in file.rules if rule.effect is Effect.ALLOW]
    return TrustSurvey(
        grants=(*allowing, *(entry for _, entry, reason in reasons if reason is None)),
        guards=tuple(_collect_guards(file, asked)),
        refused=tuple(RefusedEntry(entry, reason) for _, entry, reason in reasons if reason),
    )


def _collect_guards(
    file: LayerFile, entries: Sequence[tuple[KeyPath, TrustEntry]]
) -> Iterator[TrustEntry]:
    for rule in file.rules:
        if rule.effect is not Effect.ALLOW:
            yield _to_entry(rule)
    permissions = _get_object(file.values, "permissions")
    for key, on in TIGHTENING.items():
        if permissions.get(key) == on:
            yield TrustEntry.create(file.layer.path, f"permissions.{key}", on)
    for key in _CLOSING_LISTS:
        for value in cast("list[Json]", file.values.get(key, [])):
            yield TrustEntry.create(file.layer.path, key, value)
    yield from (entry for steps, entry in entries if steps[0] == "hooks")


def _iter_entries(file: LayerFile) -> Iterator[tuple[KeyPath, TrustEntry]]:
    """Yield the entries that need trust, except rules, each small enough to grant alone."""
    for steps, value in _iter_values(file.values):
        key = ".".join(step for step in steps if isinstance(step, str))
        yield steps, TrustEntry.create(file.layer.path, key, value, file.lines.get(steps))


def _iter_values(values: JsonObject) -> Iterator[tuple[KeyPath, Json]]:
    permissions = _get_object(values, "permissions")
    if (mode := permissions.get("defaultMode")) is not None:
        yield ("permissions", "defaultMode"), mode
    if permissions.get("denyInsteadOfPrompting") is True:
        yield ("permissions", "denyInsteadOfPrompting"), True
    directories = permissions.get("additionalDirectories", [])
    for index, directory in enumerate(cast("list[Json]", directories)):
        yield ("permissions", "additionalDirectories", index), directory
    for event, groups in _get_object(values, "hooks").items():
        for index, group in enumerate(groups if isinstance(groups, list) else ()):
            yield ("hooks", event, index), group
    for key in ("env", "mcpServers", "dispatch"):
        for name, value in _get_object(values, key).items():
            yield (key, name), value
    if (off := values.get("disableAllHooks")) is not None:
        yield ("disableAllHooks",), off
    if (most := values.get("bashOutputMaxChars")) is not None:
        yield ("bashOutputMaxChars",), most


def _find_refusal_reason(steps: KeyPath, entry: TrustEntry) -> str | None:
    """Return why no workspace may set this, or None if trust decides."""
    match steps:
        case ("permissions", "defaultMode") if entry.value not in _WORKSPACE_MODES:
            return "a workspace cannot choose this mode; use --permission-mode"
        case ("permissions", "denyInsteadOfPrompting"):
            return "a workspace cannot silence questions; set it in a file of your own"
        case ("env", str(name)) if is_refused_to_workspaces(name):
            return "a workspace cannot set this variable; set it in a file of your own"
        case ("dispatch", str(name)) if name not in _WORKSPACE_DISPATCH_KEYS:
            return "a workspace cannot set this; set it in a file of your own"
        case _:
            return None


def _to_entry(rule: RuleText) -> TrustEntry:
    return TrustEntry.create(
        rule.file, f"permissions.{rule.effect.name.lower()}", rule.text, rule.line
    )


def _get_object(values: JsonObject, key: str) -> JsonObject:
    value = values.get(key)
    return value if isinstance(value, dict) else {}


def _insert_value(values: JsonObject, steps: KeyPath, value: Json) -> None:
    """Insert the value at its key path; a list entry is appended."""
    *path, last = (step for step in steps if isinstance(step, str))
    holder = values
    for step in path:
        holder = cast(JsonObject, holder.setdefault(step, {}))
    if isinstance(steps[-1], int):
        cast("list[Json]", holder.setdefault(last, [])).append(value)
    else:
        holder[last] = value
